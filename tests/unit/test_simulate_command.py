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
    assert command.main(arguments) == 0
    printed = capsys.readouterr().err
    assert ("other times than config/demo.yaml asks for: `thinwire simulate demo" in printed) == other
    assert simulated_file.path_of(tmp_path, words[0]).exists()


def warnings(capsys, folder, *words):
    """What a command says about its times, without where the data are missing."""
    arguments = ["simulate", *words, "--profile", "a100_tf32", "--results", str(folder)]
    assert command.main(_parser().parse_args(arguments)) == 0
    return capsys.readouterr().err.replace(f" in {folder}", "")


def test_without_data_it_says_so_and_what_the_first_steps_do_not_show(tmp_path, capsys):
    methods = "methods=ssgd_bf16,local_sgd,multi_step_delay"
    said = warnings(
        capsys, tmp_path, "demo", "--cluster", "ethernet_25g_4gpus", "--steps", "8", "--only", methods
    )
    first = "its first 8 of 228 steps are not like the whole run, because"
    assert "digits is not prepared: random images take its place" in said
    assert f"local_sgd: {first} it sends nothing in them.\n" in said
    assert f"multi_step_delay: {first} its warm-up of 38 steps is as long as the run of 8.\n" in said
    assert "ssgd_bf16" not in said
    rows = pd.read_csv(simulated_file.path_of(tmp_path, "demo"))
    assert set(rows.method) == {"ssgd_bf16", "local_sgd", "multi_step_delay"}


def test_a_part_of_a_period_is_named(tmp_path, capsys):
    said = warnings(
        capsys, tmp_path, "demo", "--cluster", "ethernet_10g", "--steps", "24", "--only", "methods=local_sgd"
    )
    assert "because it sends something in only 1 of them, and not in the last.\n" in said


def test_after_whole_periods_nothing_is_said_and_a_suite_on_processes_may_leave_out_methods(tmp_path, capsys):
    """`laptop_times` measures time with all methods side by side; simulating one of them measures nothing."""
    said = warnings(
        capsys,
        tmp_path,
        "laptop_times",
        "--cluster",
        "ethernet_10g",
        "--steps",
        "16",
        "--only",
        "methods=local_sgd",
    )
    assert "not like the whole run" not in said
    assert set(pd.read_csv(simulated_file.path_of(tmp_path, "laptop_times")).method) == {"local_sgd"}
