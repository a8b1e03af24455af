"""The calibration finds the numbers with which made-up traces were made."""

import numpy as np
import pytest

from thinwire.simulation.calibration import (
    Calibration,
    CallCost,
    Contention,
    Sample,
    contention,
    costs_of_calls,
    step_seconds,
)
from thinwire.simulation.operations import Compute, Post
from thinwire.trace import trace_file
from thinwire.trace.recorder import Activity, RecordedCall, Recorder

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
            recorder.spans.append((recorder.step, activity, now, end))
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


def test_drawn_steps_keep_the_workers_of_a_step_together():
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
