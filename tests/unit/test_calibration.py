"""Measured schedules at one speed, and the calibration that finds what made-up traces were made of."""

from pathlib import Path

import numpy as np
import pytest

from thinwire.config.configuration import WHOLE
from thinwire.config.expand import cells
from thinwire.config.suite import load
from thinwire.simulation import suite_times
from thinwire.simulation.calibration import (
    Calibration,
    CallCost,
    Contention,
    Sample,
    contention,
    costs_of_calls,
    step_seconds,
)
from thinwire.simulation.compute import at_common_speed
from thinwire.simulation.operations import Compute, Post, Wait
from thinwire.trace import trace_file
from thinwire.trace.recorder import Activity, RecordedCall, Recorder, Span

STEPS, MS = 8, 1_000_000
# What the traces below are made of: milliseconds, for each kind of calls.
ALONE = 10
FACTORS = (1.5, 2.5)  # by worker
HAND_OVER, LATENCY = {"mean": 0.5, "gather": 0.75}, {"mean": 3.0, "gather": 1.0}


def trace(*kinds):
    """Two workers that compute, hand over calls of these kinds, and wait for them."""
    recorders = []
    for worker, factor in enumerate(FACTORS):
        recorder = Recorder(worker)
        now = 0

        def spend(activity, milliseconds, recorder=recorder):
            nonlocal now
            end = now + round(milliseconds * MS)
            recorder.spans.append(Span(recorder.step, activity, now, end))
            now = end

        for step in range(STEPS):
            recorder.step = step
            spend(Activity("harness"), 1)
            spend(Activity("forward", "a"), ALONE * factor)
            for verb in kinds:
                about = RecordedCall(step, "world", (0, 1), verb, "", 0, False, {"values": 1000}, now)
                number = recorder.call(about)
                spend(Activity("transport", verb, number), HAND_OVER[verb])
                spend(Activity("wait", verb, number), LATENCY[verb] + 1)
            spend(Activity("harness", "evaluation"), 500)
        recorders.append(recorder)
    return trace_file.of_recorders(recorders, 0)


ALONE_STEPS = [[Compute("harness", "", 1.0), Compute("forward", "a", ALONE / 1e3)] for _ in range(STEPS)]


def test_a_step_counts_without_the_evaluation_and_ends_with_the_slowest_worker():
    seconds = step_seconds(trace("mean"))
    assert seconds == pytest.approx((1 + 25 + 0.5 + 4) / 1e3)


def test_contention_has_the_factor_of_every_worker():
    found = contention([(trace("mean"), ALONE_STEPS), (trace("gather"), ALONE_STEPS)])
    assert found.typical == pytest.approx(2.0)
    np.testing.assert_allclose(np.unique(found.paces.round(6), axis=0), [FACTORS])
    # Drawn steps keep the workers of a step together.
    observed = Contention(np.array([[1.0, 10.0], [2.0, 20.0]]))
    drawn = observed.draw(50, seed=3)
    assert {tuple(row) for row in drawn.tolist()} == {(1.0, 10.0), (2.0, 20.0)}
    np.testing.assert_array_equal(drawn, observed.draw(50, seed=3))


def sample(*kinds):
    """A run, and a simulation that knows all but the costs of calls."""
    shared = contention([(trace("mean"), ALONE_STEPS)])

    def simulate(calibration):
        costs = [calibration.costs[kind] for kind in kinds]
        calls = sum(2 * cost.hand_over_seconds + cost.latency_seconds + 1e-3 for cost in costs)
        return 1e-3 + FACTORS[1] * ALONE / 1e3 + calls

    return Sample(trace(*kinds), shared, simulate)


def test_it_finds_the_costs_of_each_kind():
    found = costs_of_calls({"mean": [sample("mean")], "gather": [sample("mean", "gather")]})
    for kind, cost in found.items():
        # As computing of a worker alone, because the paces of the workers multiply it.
        assert cost.hand_over_seconds == pytest.approx(HAND_OVER[kind] / 1e3 / 2)
        assert cost.latency_seconds == pytest.approx(LATENCY[kind] / 1e3, abs=1e-7)
    # Of three runs the one in the middle counts.
    runs = [
        sample("mean"),
        *(Sample(s.trace, s.contention, lambda _, f=f: f) for s in [sample("mean")] for f in (0.0, 9.0)),
    ]
    assert costs_of_calls({"mean": runs})["mean"].latency_seconds == pytest.approx(
        LATENCY["mean"] / 1e3, abs=1e-7
    )


def test_a_worker_alone_hands_over_for_nothing_and_so_do_calls_without_a_cost():
    calibration = Calibration(Contention(np.ones((1, 2))), {"mean": CallCost(0.25, 0.5)})
    given = (("world", (0, 1), "mean"), ("node", (0,), "mean"), ("world", (0, 1), "gather"))
    posts = [Post(0, *where, 0, False, 4, 4, 0.0) for where in given]
    assert [calibration.hand_over_seconds(post) for post in posts] == [0.25, 0, 0]
    assert calibration.latency_seconds == {"mean": 0.5}


def step(speed, encode, layer="a"):
    """What a machine of this speed measures: passes of 1 and 2 seconds, a codec, a server of 0.5 seconds."""
    return [
        Compute("forward", layer, 1 / speed),
        Compute("backward", f"{layer}.weight", 2 / speed),
        Compute("encode", "top_k", encode / speed),
        Post(0, "world", (0, 1), "push_pull", 0, False, 8, 8, 0.5 / speed),
        Wait(0),
    ]


def test_the_speed_of_the_machine_is_taken_out_of_all_seconds():
    made = at_common_speed([[step(2, 4)], [step(1, 0)], [step(0.5, 7), step(0.5, 7)]])
    assert made == [[step(1, 4)], [step(1, 0)], [step(1, 7), step(1, 7)]]
    # A schedule without passes is kept.
    alone = [[Post(0, "world", (0, 1), "mean", 0, False, 8, 8, 0.0), Wait(0)]]
    assert at_common_speed([alone, [step(2, 1)]]) == [alone, [step(2, 1)]]


def test_other_layers_are_compared_with_their_like_only():
    """The second method computes another pass, so its seconds say nothing about the speed."""
    made = at_common_speed([[step(1, 4)], [step(8, 4, layer="b")], [step(4, 4)]])
    # The passes of the first and the third take 3 and 0.75 seconds: the median, 1.875, is a speed of 1.6.
    assert made == [[step(1.6, 4)], [step(8, 4, layer="b")], [step(1.6, 4)]]


def test_where_a_method_wants_fewer_gradients_the_parts_that_all_have_are_compared():
    """The second one computes only the inputs' gradient of layer b, which says nothing about the speed."""

    def two_layers(speed, of_b):
        return [*step(speed, 4), Compute("forward", "b", 1 / speed), Compute("backward", *of_b)]

    whole, fewer = ("b.weight", 2 / 2), ("b.inputs", 1 / 0.5)
    made = at_common_speed(
        [[two_layers(2, whole)], [two_layers(0.5, fewer)], [two_layers(1, ("b.weight", 2))]]
    )
    expected = [("b.weight", 2.0), ("b.inputs", 1.0), ("b.weight", 2.0)]
    assert made == [[two_layers(1, of_b)] for of_b in expected]


def test_the_methods_of_an_experiment_are_brought_to_one_speed_before_they_are_simulated(monkeypatch):
    """Each is mirrored while the machine has another speed; their steps take equally long nevertheless."""
    speeds = iter(range(1, 100))

    class Mirrored:
        def __init__(self, cell, results, cluster, steps, accelerator):
            self.cell, self.workers, self.steps = cell, cluster.workers, {0: [step(next(speeds), 0)]}
            self.unlike_run = None

        def on(self, cluster):
            return self

    def row(made, own_rate):
        place = {"dataset": "digits", "model": "cnn", "cluster": "c"}
        seconds = made.steps[0][0][0].seconds
        about = {"workers": made.workers, "rate_gbit_per_second": 1, "method": made.cell.method.label}
        return place | about | {"step_seconds": seconds}

    monkeypatch.setattr(suite_times, "SimulatedCell", Mirrored)
    monkeypatch.setattr(suite_times, "_row", row)
    asked = load("demo").simulate.model_copy(update={"rates_gbit_per_second": []})
    rows = suite_times.simulate_suite("demo", Path("results"), asked, WHOLE, lambda line: None, print)
    assert set(rows.method) == {cell.method.label for cell in cells("demo")}
    assert rows.step_seconds.max() == pytest.approx(rows.step_seconds.min())
