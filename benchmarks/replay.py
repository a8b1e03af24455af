"""Replays a trace: its workers compute as they did, and its calls take as long as they did.

The replay computes anew when workers wait and when their steps end. So it checks the event loop and the
schedule of a trace, without any model of a network.

Evaluations, status and records do not count, as in a simulated program. But a worker that takes longer for
them keeps the others waiting, and workers that exchange their status wait for the last one. So only the time
that every worker spends on them is left out.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, dropwhile
from typing import Any

import numpy as np

from thinwire.base.errors import UserError
from thinwire.simulation import timeline
from thinwire.simulation.program import Await, Carried, Floats, HandOver, Operation, Program, Work
from thinwire.simulation.simulate import WARM_UP_STEPS
from thinwire.trace.recorder import HARNESS, TRANSPORT, WAIT
from thinwire.trace.trace_file import COMPUTE, SERVER_TRACK, Trace

Row = dict[str, Any]  # of a table of a trace
_ROUND = 4  # steps


class RecordedWorker:
    """A worker of a trace."""

    def __init__(self, spans: Sequence[Row], calls: Sequence[Row]) -> None:
        """Read what a worker has recorded.

        Args:
            spans: what the worker itself does in its steps, in the order of time.
            calls: of this worker.
        """
        self.begin: float = spans[0]["begin_seconds"]
        self._steps: list[list[Row]] = [[] for _ in range(spans[-1]["step"] + 1)]
        for span in spans:
            self._steps[span["step"]].append(span)
        # By the numbers of calls, in the order in which they are handed over.
        self._issued: dict[int, float] = {}
        self._answered: dict[int, float] = {}
        for span in spans:
            if span["activity"] == TRANSPORT:
                self._issued.setdefault(span["call"], span["begin_seconds"])
            elif span["activity"] == WAIT:
                self._answered.setdefault(span["call"], span["end_seconds"])
        rows = {call["number"]: call for call in calls}
        self.calls = [rows[number] for number in self._issued]
        self.leave_out(0.0, [])

    @property
    def harness_spans(self) -> list[list[Row]]:
        """Spans of the harness in each step, without those that make a batch; the last span comes first."""
        return [
            [span for span in dropwhile(_is_harness, step) if _is_harness(span)][::-1] for step in self._steps
        ]

    def leave_out(self, zero: float, pieces: Sequence[tuple[float, float]]) -> None:
        """Count time from `zero` on, without `pieces`: the end and the seconds of each, in order."""
        self._zero, self._pieces = zero, list(pieces)
        self._piece_ends = [end for end, _ in pieces]
        self._before = list(accumulate((seconds for _, seconds in pieces), initial=0.0))

    @property
    def ends(self) -> list[float]:
        """When each step ends."""
        return [self._counted(step[-1]["end_seconds"]) for step in self._steps]

    def issued(self, call: Row) -> float:
        """When this worker has handed a call over."""
        return self._counted(self._issued[call["number"]])

    def ended(self, call: Row) -> float:
        """When the answer was there.

        The transport may note that only after the worker has got the answer.

        Raises:
            UserError: the trace does not say it.
        """
        number = call["number"]
        if len(call["members"]) == 1:
            return self.issued(call)
        if call["ended_seconds"] is None:
            raise UserError(
                f"call {number} of worker {call['worker']} has no end, so the trace cannot be replayed: "
                "trace the cell with --transport processes, on CPUs"
            )
        return self._counted(min(call["ended_seconds"], self._answered.get(number, float("inf"))))

    def program(self) -> Program:
        """All that the worker does except waiting. The part of a wait after the end of its call is work."""
        place = {number: index for index, number in enumerate(self._issued)}
        rows = {call["number"]: call for call in self.calls}
        posted: set[int] = set()
        program: Program = []
        since = 0.0  # all until then is in the program
        for step, end in zip(self._steps, self.ends):
            made: list[Operation] = []
            for span in step:
                number, begin = span["call"], self._counted(span["begin_seconds"])
                if span["activity"] == TRANSPORT and number not in posted:
                    posted.add(number)
                    made += [Work(begin - since), _hand_over(rows[number])]
                    since = begin
                elif span["activity"] == WAIT and number in place:
                    made += [Work(begin - since), Await(place[number])]
                    since = min(max(self.ended(rows[number]), begin), self._counted(span["end_seconds"]))
            program.append([*made, Work(end - since)])
            since = end
        return program

    def _counted(self, moment: float) -> float:
        """The time of a moment."""
        piece = bisect_right(self._piece_ends, moment)
        counted = moment - self._zero - self._before[piece]
        if piece < len(self._pieces):
            end, seconds = self._pieces[piece]
            counted -= max(0.0, moment - (end - seconds))
        return counted


def _seconds(span: Row) -> float:
    seconds: float = span["end_seconds"] - span["begin_seconds"]
    return seconds


def _is_harness(span: Row) -> bool:
    return bool(span["activity"] == HARNESS)


def _hand_over(call: Row) -> HandOver:
    pull = call["received_bytes"] if call["verb"] == "push_pull" else 0
    return HandOver(
        call["channel"], call["verb"], call["partner"], call["ragged"], call["sent_bytes"], pull, 0.0
    )


@dataclass(frozen=True, slots=True)
class MeasuredCall:
    """A call, as one of its members has measured it."""

    joint: int  # a number that only the calls that belong together share
    members: int  # how many make it
    alone: bool  # did it end before its last member made it, so without waiting for that member?
    seconds: float  # from when this member (if `alone`) or else the last member made it, to its end
    server_seconds: float = 0.0  # of these, how long the server has computed


class MeasuredCalls:
    """A `Carrier` that knows how long every call takes; it counts no bytes."""

    sent_bytes = between_nodes_bytes = 0

    def __init__(self, calls: Sequence[Sequence[MeasuredCall]]) -> None:
        """Take the calls of each worker, in the order in which it makes them."""
        self._next = [iter(own) for own in calls]
        # By the joint number, while members are missing.
        self._made: defaultdict[int, list[tuple[MeasuredCall, Carried]]] = defaultdict(list)
        self._ready: list[int] = []

    def hand_over(self, worker: int, what: HandOver, now: float, after: Sequence[Any] = ()) -> Carried:
        """Make the worker's next call; the last member lets it end for all.

        How long it was held back is part of what was measured.
        """
        measured = next(self._next[worker])
        call = Carried(now, served=measured.server_seconds)
        if measured.alone:
            call.end = now + measured.seconds
        together = self._made[measured.joint]
        together.append((measured, call))
        if len(together) == measured.members:
            last = max(made.begin for _, made in together)
            for own, made in together:
                if not own.alone:
                    made.begin, made.end = last, last + own.seconds
                    self._ready += made.blocked
            del self._made[measured.joint]
        return call

    def carry(self) -> list[int] | None:
        """Give the workers whose calls have ended."""
        ready, self._ready = self._ready, []
        return ready or None


def replayed(trace: Trace) -> timeline.Timeline:
    """Replay a trace of workers in processes of their own; bytes are not counted.

    Raises:
        UserError: the trace has no step, or does not say when a call has ended.
    """
    workers = _workers(trace)
    programs = [worker.program() for worker in workers]
    pace = np.ones((len(programs[0]), len(workers)))
    return timeline.run(programs, MeasuredCalls(_measured_calls(trace, workers)), pace)


def measured_end_seconds(trace: Trace) -> Floats:
    """When each worker has ended each step, to compare with a replay: [steps, workers].

    Raises:
        UserError: the trace has no step.
    """
    return np.array([worker.ends for worker in _workers(trace)]).T


def step_seconds(trace: Trace) -> float:
    """The typical seconds of a step, without evaluations and records; see `typical_seconds`."""
    return typical_seconds(np.diff(measured_end_seconds(trace).max(axis=1)[WARM_UP_STEPS - 1 :]))


def typical_seconds(steps: Floats) -> float:
    """The typical seconds of a step: the median over rounds of four steps, of the mean of a round.

    Some methods do something else in every second or fourth step, so each round has such a step. The median
    leaves out rounds in which other programs took the machine.

    Args:
        steps: the seconds of steps that follow one another, at least four.
    """
    rounds = len(steps) // _ROUND
    return float(np.median(steps[: rounds * _ROUND].reshape(rounds, _ROUND).mean(axis=1)))


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
            seconds[number] += _seconds(span)
    return seconds
