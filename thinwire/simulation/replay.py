"""Replays a trace: its workers compute as they did, and its calls take as long as they did.

The replay computes anew when workers wait and when their steps end. So it checks the event loop and the
schedule of a trace, without any model of a network.

Evaluations, status and records do not count, as in a simulated program. But a worker that takes longer for
them keeps the others waiting, and workers that exchange their status wait for the last one. So only the time
that every worker spends on them is left out.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from thinwire.base.errors import UserError
from thinwire.simulation import event_loop
from thinwire.simulation.program import Floats, Timeline
from thinwire.simulation.recorded_worker import MeasuredCall, MeasuredCalls, RecordedWorker, Row
from thinwire.trace.trace_file import COMPUTE, SERVER_TRACK, Trace


def replayed(trace: Trace) -> Timeline:
    """Replay a trace of workers in processes of their own; bytes are not counted.

    Raises:
        UserError: the trace has no step, or does not say when a call has ended.
    """
    workers = _workers(trace)
    programs = [worker.program() for worker in workers]
    pace = np.ones((len(programs[0]), len(workers)))
    return event_loop.run(programs, MeasuredCalls(_measured_calls(trace, workers)), pace)


def measured_end_seconds(trace: Trace) -> Floats:
    """When each worker has ended each step, to compare with a replay: [steps, workers].

    Raises:
        UserError: the trace has no step.
    """
    return np.array([worker.ends for worker in _workers(trace)]).T


def _workers(trace: Trace) -> list[RecordedWorker]:
    spans: defaultdict[int, list[Row]] = defaultdict(list)
    for span in trace.spans.to_pylist():
        if span["track"] == COMPUTE and span["step"] >= 0:
            spans[span["worker"]].append(span)
    if not spans:
        raise UserError("this trace has no step, so it cannot be replayed: trace a cell for some steps")
    calls = trace.calls.to_pylist()
    workers = [
        RecordedWorker(spans[number], [call for call in calls if call["worker"] == number])
        for number in sorted(spans)
    ]
    zero = min(worker.begin for worker in workers)
    pieces = [_pieces(of_step) for of_step in zip(*(w.harness_spans for w in workers), strict=True)]
    for index, worker in enumerate(workers):
        worker.leave_out(zero, [piece for of_step in pieces for piece in of_step[index]])
    return workers


def _pieces(harness_spans: Sequence[Sequence[Row]]) -> list[list[tuple[float, float]]]:
    """What to leave out of a step: of each worker, the end and the seconds of each piece, in order.

    Args:
        harness_spans: of each worker, the last one first. Workers of several roles may have more or fewer.
    """
    together = [(spans, min(map(_seconds, spans))) for spans in zip(*harness_spans)][::-1]
    return [
        [(spans[index]["end_seconds"], shortest) for spans, shortest in together]
        for index in range(len(harness_spans))
    ]


def _seconds(span: Row) -> float:
    seconds: float = span["end_seconds"] - span["begin_seconds"]
    return seconds


def _measured_calls(trace: Trace, workers: Sequence[RecordedWorker]) -> list[list[MeasuredCall]]:
    """The calls of each worker, in the order in which it makes them."""
    joint = _joint_numbers(trace.calls.to_pylist())
    served = _server_seconds(trace.spans.to_pylist(), joint)
    issued: defaultdict[int, list[float]] = defaultdict(list)
    for worker in workers:
        for call in worker.calls:
            issued[joint[_key(call)]].append(worker.issued(call))

    def measured(worker: RecordedWorker, call: Row) -> MeasuredCall:
        number, ended = joint[_key(call)], worker.ended(call)
        last = max(issued[number])
        alone = ended < last
        seconds = ended - (worker.issued(call) if alone else last)
        return MeasuredCall(number, len(issued[number]), alone, seconds, served[number])

    return [[measured(worker, call) for call in worker.calls] for worker in workers]


def _key(call: Row) -> tuple[int, int]:
    return call["worker"], call["number"]


def _joint_numbers(calls: Iterable[Row]) -> dict[tuple[int, int], int]:
    """A number that only the calls that belong together share, by the worker and the number of each call.

    All members of a channel make the same collective calls in the same order. Messages from one worker to
    another arrive in the order in which they were sent.
    """
    before: Counter[tuple[object, ...]] = Counter()
    numbers: dict[tuple[object, ...], int] = {}
    joint = {}
    for call in calls:
        route = (call["channel"], *call["members"], *_ends(call))
        before[call["worker"], route] += 1
        place = (route, before[call["worker"], route])
        joint[_key(call)] = numbers.setdefault(place, len(numbers))
    return joint


def _ends(call: Row) -> tuple[int, ...]:
    """Sender and receiver of a message; nothing for a collective call."""
    own, partner = call["worker"], call["members"][call["partner"]]
    return {"send": (own, partner), "receive": (partner, own)}.get(call["verb"], ())


def _server_seconds(spans: Iterable[Row], joint: Mapping[tuple[int, int], int]) -> defaultdict[int, float]:
    """How long servers have computed before they answered, by the joint numbers of calls."""
    seconds: defaultdict[int, float] = defaultdict(float)
    for span in spans:
        if span["track"] == SERVER_TRACK:
            number = joint[span["worker"], span["call"]]
            seconds[number] += span["end_seconds"] - span["begin_seconds"]
    return seconds
