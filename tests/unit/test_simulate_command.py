"""`thinwire simulate` says when it simulates something else than the suite asks for, or than a whole run."""

import pandas as pd
import pytest

from thinwire.cli import simulate as command
from thinwire.cli.main import _parser
from thinwire.simulation import simulated_file

ROW = dict.fromkeys(simulated_file.COLUMNS, 1)


@pytest.mark.parametrize(
    ("words", "other"),
    [
        (["demo"], False),
        (["demo", "--cluster", "wan_100m"], True),
        (["demo", "--steps", "7"], True),
        (["laptop", "--cluster", "wan_100m"], False),  # which asks for nothing
    ],
)
def test_times_that_a_suite_does_not_ask_for_are_named(monkeypatch, tmp_path, capsys, words, other):
    monkeypatch.setattr(command, "simulate_suite", lambda *arguments: pd.DataFrame([ROW]))
    monkeypatch.setattr(command, "described", lambda rows: [])
    arguments = _parser().parse_args(["simulate", *words, "--results", str(tmp_path)])
    assert command.simulate_main(arguments) == 0
    printed = capsys.readouterr().err
    assert ("other times than config/demo.yaml asks for: `thinwire simulate demo" in printed) == other
    assert simulated_file.path_of(tmp_path, words[0]).exists()


@pytest.fixture
def said(tmp_path, capsys):
    """What a command says about its times, without the place of the data; and its methods."""

    def call(suite, words):
        arguments = ["simulate", suite, *words.split(), "--profile", "a100_tf32", "--results", str(tmp_path)]
        assert command.simulate_main(_parser().parse_args(arguments)) == 0
        methods = pd.read_csv(simulated_file.path_of(tmp_path, suite)).method
        return capsys.readouterr().err.replace(f" in {tmp_path}", ""), set(methods)

    return call


def test_without_data_it_says_so_and_what_the_first_steps_do_not_show(said):
    asked = "--only methods=ssgd_bf16,local_sgd,multi_step_delay"
    text, methods = said("demo", f"--cluster ethernet_25g_4gpus --steps 8 {asked}")
    first = "its first 8 of 228 steps are not like the whole run, because"
    assert "digits is not prepared: random images take its place" in text
    assert f"local_sgd: {first} it sends nothing in them.\n" in text
    assert f"multi_step_delay: {first} its warm-up of 38 steps is as long as the run of 8.\n" in text
    assert "ssgd_bf16" not in text
    assert methods == {"ssgd_bf16", "local_sgd", "multi_step_delay"}


def test_a_part_of_a_period_is_named(said):
    text, _ = said("demo", "--cluster ethernet_10g --steps 24 --only methods=local_sgd")
    assert "because it sends something in only 1 of them, and not in the last.\n" in text


def test_after_whole_periods_nothing_is_said_and_a_suite_on_processes_may_leave_out_methods(said):
    """`laptop_times` measures time with all methods side by side; simulating one of them measures nothing."""
    text, methods = said("laptop_times", "--cluster ethernet_10g --steps 16 --only methods=local_sgd")
    assert "not like the whole run" not in text
    assert methods == {"local_sgd"}
