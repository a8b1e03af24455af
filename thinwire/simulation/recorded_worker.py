"""A worker of a trace, and its calls, which take as long as they were measured."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, dropwhile
from typing import Any

from thinwire.base.errors import UserError
from thinwire.simulation.program import Await, HandOver, Operation, Program, Work
from thinwire.trace.recorder import HARNESS, TRANSPORT, WAIT

Row = dict[str, Any]  # of a table of a trace


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


@dataclass(slots=True)
class _Call:
    """A call of one member."""

    measured: MeasuredCall
    begin: float
    end: float = -1.0
    served: float = 0.0
    blocked: list[int] = field(default_factory=list)


class MeasuredCalls:
    """A `Carrier` that knows how long every call takes; it counts no bytes."""

    sent_bytes = between_nodes_bytes = 0

    def __init__(self, calls: Sequence[Sequence[MeasuredCall]]) -> None:
        """Take the calls of each worker, in the order in which it makes them."""
        self._next = [iter(own) for own in calls]
        self._made: dict[int, list[_Call]] = {}  # by the joint number, while members are missing
        self._ready: list[int] = []

    def hand_over(self, worker: int, what: HandOver, now: float, after: Sequence[Any] = ()) -> _Call:
        """Make the worker's next call; the last member lets it end for all.

        How long it was held back is part of what was measured.
        """
        measured = next(self._next[worker])
        call = _Call(measured, now, served=measured.server_seconds)
        if measured.alone:
            call.end = now + measured.seconds
        together = self._made.setdefault(measured.joint, [])
        together.append(call)
        if len(together) == measured.members:
            del self._made[measured.joint]
            self._end(together)
        return call

    def carry(self) -> list[int] | None:
        """Give the workers whose calls have ended."""
        ready, self._ready = self._ready, []
        return ready or None

    def _end(self, together: Sequence[_Call]) -> None:
        last = max(call.begin for call in together)
        for call in together:
            if not call.measured.alone:
                call.begin, call.end = last, last + call.measured.seconds
                self._ready += call.blocked
