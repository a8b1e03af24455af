"""What a person reads of a schedule, and of a simulation that is not what the suite asks for."""

import pandas as pd
import pytest

from thinwire.cli import simulate as command
from thinwire.cli.arguments import parser
from thinwire.simulation import simulated_file
from thinwire.simulation.describe import describe, kinds_of_steps, ranges
from thinwire.simulation.program import Compute, Post, Wait
from thinwire.trace.recorder import BACKWARD, FORWARD, HARNESS, METHOD, OPTIMIZER


def post(call, verb="mean", sent=100, received=100, partner=0, ragged=False):
    return Post(call, "world", (0, 1, 2, 3), verb, partner, ragged, sent, received, 0.0)


def compute(kind, name="x"):
    return Compute(kind, name, 0.5)


def lines(*steps):
    return [(kind.numbers, list(describe(kind))) for kind in kinds_of_steps(list(steps))]


def test_consecutive_spans_are_one_line_and_the_harness_has_none():
    passes = [(FORWARD, "a"), (FORWARD, "b"), (FORWARD, "c"), (BACKWARD, "c"), (METHOD, "grad_ready")]
    step = [(HARNESS, "x"), *passes, (BACKWARD, "b"), (BACKWARD, ""), (OPTIMIZER, "step")]
    step = [compute(*span) for span in step]
    assert lines(step) == [((0,), ["forward     a ... c (3)", "backward    c, b", "optimizer   step"])]


def test_steps_with_other_calls_are_other_kinds():
    alone, average = [compute(FORWARD)], [compute(FORWARD), post(0), Wait(0)]
    assert lines(alone, alone, average, alone) == [
        ((0, 1, 3), ["forward     x"]),
        ((2,), ["forward     x", "call 1      mean on world of 4: 100 bytes", "wait        for call 1"]),
    ]
    # Those of one kind may have other partners.
    ((numbers, (line,)),) = lines(*([post(step, "broadcast", partner=step % 3)] for step in range(6)))
    assert numbers == (0, 1, 2, 3, 4, 5)
    assert line == "call 1      broadcast on world of 4: 100 bytes from ranks 0-2"


def test_sizes_of_ragged_payloads_may_differ_and_those_of_a_warm_up_are_another_kind():
    sizes = (1000, 990, 40, 42)
    steps = [[post(n, "gather", size, 3 * size, ragged=True)] for n, size in enumerate(sizes)]
    before = "call 1      ragged gather on world of 4: "
    large = "990 to 1,000 bytes to all others, 2,970 to 3,000 bytes from them"
    small = "40 to 42 bytes to all others, 120 to 126 bytes from them"
    assert lines(*steps) == [((0, 1), [before + large]), ((2, 3), [before + small])]
    assert len(lines(*([post(n, sent=size)] for n, size in enumerate(sizes)))) == 4


def test_calls_that_follow_each_other_are_one_line_with_the_sum():
    step = [*(post(n, "push_pull", 10 * n, 7, partner=n % 3) for n in range(5)), *map(Wait, range(5))]
    calls = "calls 1-5   push_pull on world of 4: 100 bytes to ranks 0-2, 35 bytes back"
    assert lines(step) == [((0,), [calls, "wait        for calls 1-5"])]
    # A pattern that repeats is printed once.
    step = [op for n in range(3) for op in (compute(FORWARD, f"layer{n}"), post(n))]
    passes, calls = "  forward     layer0 ... layer2 (3)", "  calls 1-3   mean on world of 4: 300 bytes"
    assert lines(step) == [((0,), ["3 times:", passes, calls])]


def test_a_wait_says_of_which_step_the_call_is():
    steps = [[post(0)], [post(1), Wait(0)], [post(2), Wait(1)], [Wait(2), Wait(0)]]
    assert [found[-1] for _, found in lines(*steps)] == [
        "call 1      mean on world of 4: 100 bytes",
        "wait        for call 1 of the step before",
        "wait        for call 1 of 3 steps before",
    ]


def test_many_numbers_have_dots():
    assert ranges([0, 1, 2, 5, 7, 8]) == "0-2, 5, 7-8"
    assert ranges(range(0, 40, 2)) == "0, 2, 4, 6, 8, ..., 38"


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
    monkeypatch.setattr(command, "described", lambda rows, accelerator: [])
    arguments = parser().parse_args(["simulate", *words, "--results", str(tmp_path)])
    assert command.simulate_main(arguments) == 0
    printed = capsys.readouterr().err
    assert ("other times than config/demo.yaml asks for: `thinwire simulate demo" in printed) == other
    assert simulated_file.path_of(tmp_path, words[0]).exists()


EIGHT = "its first 8 of 228 steps are not like the whole run, because"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "demo --cluster ethernet_25g_4gpus --steps 8 --only methods=ssgd_bf16,local_sgd,multi_step_delay",
            [
                f"local_sgd: {EIGHT} it sends nothing in them.\n",
                f"multi_step_delay: {EIGHT} its warm-up of 38 steps is as long as the run of 8.\n",
            ],
        ),
        (
            "demo --cluster ethernet_10g --steps 24 --only methods=local_sgd",
            ["because it sends something in only 1 of them, and not in the last.\n"],
        ),
        # Whole periods. This suite measures all methods side by side; simulating one measures nothing.
        ("laptop_times --cluster ethernet_10g --steps 16 --only methods=local_sgd", []),
    ],
)
def test_without_data_it_says_so_and_what_the_first_steps_do_not_show(tmp_path, capsys, words, said):
    arguments = parser().parse_args(["simulate", *words.split(), "--results", str(tmp_path)])
    assert command.simulate_main(arguments) == 0
    text = capsys.readouterr().err
    assert "is not prepared in" in text
    assert "random inputs take its place" in text
    assert all(sentence in text for sentence in said)
    assert text.count("not like the whole run") == len(said)
    methods = pd.read_csv(simulated_file.path_of(tmp_path, arguments.suite)).method
    assert set(methods) == set(words.rpartition("=")[2].split(","))
