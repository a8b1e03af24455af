"""The calibration finds what made-up traces were made of, and how gloo sends over emulated links."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.calibration import (
    SEGMENT_BYTES,
    Calibration,
    CallCost,
    Contention,
    EmulatedLoads,
    Sample,
    contention,
    costs_of_calls,
    ring_latency_seconds,
)
from benchmarks.replay import step_seconds
from tests.unit.test_simulation import BYTES, call, described
from thinwire.base.placement import Cluster
from thinwire.simulation import timeline
from thinwire.simulation.program import Await, Compute, Post, Work
from thinwire.trace import trace_file
from thinwire.trace.recorder import Activity, RecordedCall, Recorder, Span
from thinwire.traffic.wire_bytes import payload_rate

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
    assert step_seconds(trace("mean")) == pytest.approx((1 + 25 + 0.5 + 4) / 1e3)


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

    own = trace(*kinds)
    return Sample(own, step_seconds(own), shared, simulate)


def test_it_finds_the_costs_of_each_kind():
    found = costs_of_calls({"mean": [sample("mean")], "gather": [sample("mean", "gather")]})
    for kind, cost in found.items():
        # As computing of a worker alone, because the paces of the workers multiply it.
        assert cost.hand_over_seconds == pytest.approx(HAND_OVER[kind] / 1e3 / 2)
        assert cost.latency_seconds == pytest.approx(LATENCY[kind] / 1e3, abs=1e-7)
    # Of three runs the one in the middle counts.
    middle = sample("mean")
    runs = [middle, *(replace(middle, simulate=lambda _, f=f: f) for f in (0.0, 9.0))]
    assert costs_of_calls({"mean": runs})["mean"] == found["mean"]


def test_a_worker_alone_hands_over_for_nothing_and_so_do_calls_without_a_cost():
    calibration = Calibration(Contention(np.ones((1, 2))), {"mean": CallCost(0.25, 0.5)})
    given = (("world", (0, 1), "mean"), ("node", (0,), "mean"), ("world", (0, 1), "gather"))
    posts = [Post(0, *where, 0, False, 4, 4, 0.0) for where in given]
    assert [calibration.hand_over_seconds(post) for post in posts] == [0.25, 0, 0]
    assert calibration.latency_seconds == {"mean": 0.5}


SIZE = BYTES / (125e6 * 1448 / 1514)  # in seconds
BURST = 36_864
TWO = Cluster(2, 2)


def emulated(program, cluster, on, burst=0, latencies=None):
    """The timeline of workers with one program."""
    loads = EmulatedLoads(on, cluster, burst, latencies or {})
    paces = np.ones((len(program), cluster.workers))
    return timeline.by_events([program] * cluster.workers, cluster, loads, paces)


def test_a_measured_latency_is_that_of_its_kind_of_calls_between_nodes():
    cluster, across = Cluster(4, 2), {"mean": 5e-3, "gather": 1e-3, "ragged gather": 7e-3}
    known = {kind: seconds for kind, seconds in across.items() if kind != "gather"}
    loads = EmulatedLoads(described(latency=0, call=1e-3), cluster, 0, known)
    for verb, expected in across.items():
        for channel, latency in (("across", expected), ("node", 1e-3)):
            load = loads.of(call(verb, channel), cluster.groups(0)[channel])
            assert sum(phase.latency_seconds for phase in load.phases) == latency, (verb, channel)


def test_other_calls_go_between_the_halves_of_a_mean():
    """By hand: each phase of a mean of two sends half its bytes. The third call waits until one has ended."""
    sizes = (200_000, BYTES, 400_000)
    small, large, third = (size / BYTES * SIZE for size in sizes)
    made = [[*(call(size=size) for size in sizes), Await(0)], [Await(1)], [Await(2)]]
    ends = emulated(made, TWO, described(latency=0), latencies={"mean": 0.0}).end_seconds[:, 0]
    assert ends == pytest.approx([small + large / 2, small + large, small + large + third])
    in_order = emulated(made, TWO, described(latency=0, call=0)).end_seconds[:, 0]
    assert in_order == pytest.approx([small, small + large, small + large + third])


def test_many_bytes_hide_the_latencies_of_hops_and_few_do_not():
    """By hand: a ring of 4 has three times the hops of a ring of 2, whose call has a latency of 5 ms."""
    for size, expected in ((8, 3 * 5e-3), (BYTES, 1.5 * SIZE + 5e-3)):
        program, cluster = [[call(size=size), Await(0)]], Cluster(4, 4)
        made = emulated(program, cluster, described(latency=0), latencies={"mean": 5e-3})
        assert made.seconds == pytest.approx(expected)


@pytest.mark.parametrize(("latencies", "expected"), [({}, 2), ({"mean": 0.0}, 4)])
def test_a_mean_of_two_over_links_with_a_latency_waits_for_four_of_them(latencies, expected):
    """Half of them until a member knows that the other one is ready, which only gloo waits for."""
    made = emulated([[call(), Await(0)]], TWO, described(latency=25e-3, call=0), latencies=latencies)
    assert made.seconds == pytest.approx(SIZE + expected * 25e-3)


@pytest.mark.parametrize(("size", "late"), [(BYTES, 0.5), (60_000, 0.0)])
def test_a_gather_of_two_waits_for_half_of_the_late_payload(size, late):
    def latency(cluster, burst):
        loads = EmulatedLoads(described(), cluster, burst, {})
        return loads.of(call("gather", size=size), cluster.world()).phases[0].latency_seconds

    assert latency(TWO, BURST) == pytest.approx(latency(TWO, 0) + late * size / BYTES * SIZE)
    # Among more members nothing is added, even if only two of them have a neighbour on another node.
    for more in (Cluster(3, 3), Cluster(4, 2)):
        assert latency(more, BURST) == latency(more, 0)


def test_a_link_passes_on_a_burst_at_once_after_a_pause_and_never_more():
    """By hand: what is sent in a step takes a second, a burst half a second; a pause fills the bucket."""
    on = described()
    sent = call("gather", size=round(payload_rate(on.link.rate_bytes_per_second)))
    burst = round(on.link.rate_bytes_per_second / 2)
    made = [[sent, Await(0)], [sent, Await(1)], [Work(0.25), sent, Await(2)], [Work(9.0), sent, Await(3)]]
    without, with_burst = (emulated(made, TWO, on, size).end_seconds[:, 0] for size in (0, burst))
    saved = np.diff(without - with_burst, prepend=0.0)
    np.testing.assert_allclose(saved[[0, 3]], 0.5, atol=1e-6)
    # The latency of a call is a pause, too.
    latency = on.link.latency_seconds + on.call_latency_seconds
    assert saved[1] < 2 * latency + 1e-6
    assert 0.25 <= saved[2] < 0.25 + 2 * latency + 1e-6


# Of two members, both segments go at once: after a word that the receiver is ready. Four are two pairs.
@pytest.mark.parametrize(("members", "latencies"), [(2, 2), (3, 4), (4, 6)])
def test_few_bytes_wait_for_two_latencies_a_pair_of_segments(members, latencies):
    assert ring_latency_seconds(8.0, members, 25e-3, 1e9) == pytest.approx(latencies * 25e-3)


def test_five_segments_of_two_members_wait_behind_what_the_members_send_themselves():
    """By hand, at 10 ms a segment and 10 ms one way.

    Segments 0 and 1 leave from 10 to 30 ms, and arrive at 30 and 40. Then the member is ready for 2 and 3.
    The word for 2 has nothing before it, so 2 leaves at 40. The word for 3 goes behind 2, which has left at
    50, so 3 leaves at 60. At 60, 2 arrives; the word for 4 goes behind 3, which has left at 70. So 4 leaves
    at 80, and arrives at 100. Its bytes alone take 50.
    """
    half, rate = 5.0 * SEGMENT_BYTES, SEGMENT_BYTES / 10e-3
    assert ring_latency_seconds(half, 2, 10e-3, rate) == pytest.approx(50e-3)
    # A link that waits, before segments 2, 3 and 4, is ahead of its rate afterwards.
    assert ring_latency_seconds(half, 2, 10e-3, rate, 1e-3) == pytest.approx(47e-3, abs=1e-3)
