"""Replays of traces: made-up ones, computed by hand, and real ones of two processes."""

import numpy as np
import pytest

from benchmarks.replay import MeasuredCall, MeasuredCalls, measured_end_seconds, replayed
from tests import processes
from tests.traced import Everything, trace_of
from thinwire.base.errors import UserError
from thinwire.simulation import timeline
from thinwire.simulation.program import Await, HandOver, Work
from thinwire.trace import trace_file
from thinwire.trace.trace_file import CALL_COLUMNS, COMPUTE, SERVER_TRACK, SPAN_COLUMNS, Trace

WORKERS = 2
CALL = HandOver("world", "mean", 0, False, 8, 0, 0.0)


def trace(*workers, ended, verb="mean", served=()):
    """A trace of two workers.

    Args:
        workers: of each, when it begins, and its steps: pairs of an activity and its seconds. An activity is
            a kind, or a kind and the number of a call.
        ended: of each worker, when its calls have ended.
        verb: of all calls.
        served: spans of the server of the first worker: a call, the begin and the end.
    """
    spans, calls = [], []
    for worker, ((now, *steps), ends) in enumerate(zip(workers, ended)):
        for number, step in enumerate(steps):
            for activity, seconds in step:
                kind, call = (activity, None) if isinstance(activity, str) else activity
                spans.append((worker, number, COMPUTE, kind, "", call, now, now + seconds))
                if kind == "transport":
                    about = ("world", [0, 1], verb, "", 0, False, 8, 8, now, now)
                    calls.append((worker, call, number, *about, ends[call]))
                now += seconds
    spans += [(0, 0, SERVER_TRACK, "server", "", *each) for each in served]
    return Trace(table(spans, SPAN_COLUMNS), table(calls, CALL_COLUMNS))


def table(rows, columns):
    return columns.empty_table() if not rows else trace_file._table(rows, columns)


def parts(made):
    """In the order of the timeline: computing, waiting for others, for a server, for bytes; of one step."""
    names = ("compute_seconds", "others_seconds", "server_seconds", "communication_seconds")
    return [np.round(getattr(made, name)[0], 9).tolist() for name in names]


def same_as_measured(made):
    again = replayed(made)
    np.testing.assert_allclose(again.end_seconds, measured_end_seconds(made), rtol=1e-12)
    return again


def worker(forward=1.0, transport=0.0, method=0.0, wait=2.0, optimizer=0.0):
    """A worker that makes a call in its only step, and waits for it."""
    calls = [(("transport", 0), transport), ("method", method), (("wait", 0), wait)]
    return 0.0, [("forward", forward), *calls, ("optimizer", optimizer)]


LATE = [worker(1.0, 0.5, 0.0, 2.0, 1.0), worker(2.5, 0.5, 0.0, 0.75, 1.0)]
STEP_ENDS_LATER = [worker(optimizer=1.0)] * 2
SOURCE = [worker(1.0, wait=0.5, optimizer=1.0), worker(4.0, wait=0.5, optimizer=1.0)]
ANSWERED_EARLIER = [worker(), worker(method=1.5, wait=0.5)]
SERVED = {"verb": "push_pull", "served": [(0, 1.5, 2.25)]}
NONE = [0.0, 0.0]


@pytest.mark.parametrize(
    ("workers", "ended", "more", "ends", "expected"),
    [
        # Worker 0 calls at 1.0, worker 1 at 2.5; the answer is there at 3.5 and at 3.75.
        (LATE, [3.5, 3.75], {}, [4.5, 4.75], [[2.5, 4.0], [1.0, 0.0], NONE, [1.0, 0.75]]),
        # What follows in a wait after the answer is work.
        (ANSWERED_EARLIER, [2.25, 2.0], {}, [3.0, 3.0], [[1.75, 3.0], NONE, NONE, [1.25, 0.0]]),
        # An end that is noted after the wait was not later than the wait.
        (STEP_ENDS_LATER, [3.5, 3.0], {}, [4.0, 4.0], [[2.0, 2.0], NONE, NONE, [2.0, 2.0]]),
        # A source does not wait for workers that receive later.
        (SOURCE, [1.5, 4.5], {"verb": "broadcast"}, [2.5, 5.5], [[2.0, 5.0], NONE, NONE, [0.5, 0.5]]),
        # A server has its part of the waiting.
        ([worker()] * 2, [3.0, 3.0], SERVED, [3.0, 3.0], [[1.0, 1.0], NONE, [0.75] * 2, [1.25] * 2]),
    ],
)
def test_by_hand_a_call_takes_as_long_as_it_did_after_the_last_worker_has_made_it(
    workers, ended, more, ends, expected
):
    again = same_as_measured(trace(*workers, ended=[[end] for end in ended], **more))
    assert again.end_seconds.tolist() == [ends]
    assert parts(again) == expected


def test_a_call_may_be_on_its_way_in_the_next_step():
    """The harness makes a batch first, which counts; its evaluation does not, in which the call ends."""
    step = [("harness", 0.25), ("forward", 1.0), (("transport", 0), 0.25), ("harness", 9.0)]
    following = [("harness", 0.25), (("wait", 0), 0.25), ("forward", 1.0), ("harness", 0.5)]
    made = trace((0.0, step, following), (0.0, step, following), ended=[[5.0], [5.0]])
    again = same_as_measured(made)
    assert again.end_seconds.tolist() == [[1.5, 1.5], [3.0, 3.0]]
    assert again.communication_seconds.sum() == 0


def test_a_worker_that_evaluates_for_longer_keeps_the_others_waiting():
    """By hand: 2 s of the harness are common to both; worker 0 needs 3 more, which worker 1 waits for."""
    first = [("forward", 1.0), ("harness", 5.0)], [("forward", 1.0), ("harness", 2.0)]
    second = [("forward", 1.0), (("transport", 0), 0.0), (("wait", 0), 0.5), ("harness", 0.0)]
    slow = [("forward", 1.0), (("transport", 0), 0.0), (("wait", 0), 3.5), ("harness", 0.0)]
    made = trace((0.0, first[0], second), (0.0, first[1], slow), ended=[[7.5], [7.5]])
    again = same_as_measured(made)
    assert again.end_seconds.tolist() == [[4.0, 1.0], [5.5, 5.5]]
    assert again.others_seconds.tolist() == [[0.0, 0.0], [0.0, 3.0]]


def test_workers_that_begin_later_end_later():
    step = [("forward", 1.0), ("harness", 0.0)]
    again = same_as_measured(trace((7.0, step), (7.5, step), ended=[[], []]))
    assert again.end_seconds.tolist() == [[1.0, 1.5]]


def test_in_a_replay_everybody_waits_for_a_worker_that_has_become_slower():
    """It finds waits out: they are not in the programs. By hand: 2 s of work, and calls of 1 s."""
    program = [[Work(2.0), CALL, Await(number)] for number in range(3)]
    calls = [[MeasuredCall(number, 2, False, 1.0) for number in range(3)] for _ in range(2)]
    pace = np.ones((3, 2))
    pace[1, 0] = 2.0
    made = timeline.run([program, program], MeasuredCalls(calls), pace)
    assert made.end_seconds.tolist() == [[3.0, 3.0], [8.0, 8.0], [11.0, 11.0]]
    assert made.others_seconds.tolist() == [[0.0, 0.0], [0.0, 2.0], [0.0, 0.0]]


def test_what_cannot_be_replayed_is_one_sentence():
    step = [("forward", 1.0), (("transport", 0), 0.0), (("wait", 0), 2.0)]
    with pytest.raises(UserError, match="call 0 of worker 0 has no end, so the trace cannot be replayed"):
        replayed(trace((0.0, step), (0.0, step), ended=[[None], [3.0]]))
    with pytest.raises(UserError, match="this trace has no step, so it cannot be replayed"):
        replayed(trace((0.0,), (0.0,), ended=[[], []]))


STEPS = 12
METHODS = {
    "ssgd": ("ssgd", {}),
    "ps_sgd": ("ps_sgd", {}),
    "local_sgd": ("local_sgd", {"period": 3}),
    "daso": ("daso", {}),
    "every verb": (Everything, {}),
}


def trace_methods():
    return {
        name: trace_of(method, STEPS, WORKERS, WORKERS, **options)
        for name, (method, options) in METHODS.items()
    }


@pytest.fixture(scope="module")
def real():
    made = processes.run(trace_methods, WORKERS)
    return {name: trace_file.merged([of_rank[name] for of_rank in made]) for name in METHODS}


@pytest.mark.parametrize("method", METHODS)
def test_a_real_trace_is_replayed_with_its_own_step_time(real, method):
    again, measured = replayed(real[method]), measured_end_seconds(real[method])
    assert measured.shape[1] == WORKERS
    np.testing.assert_allclose(again.end_seconds, measured, atol=1e-9)
    # Waits are found out: they are in no program.
    waited = again.others_seconds + again.server_seconds + again.communication_seconds
    assert waited.sum() > 0
