"""Calls that take as long as they have taken in a trace."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from thinwire.simulation.program import HandOver


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

    def hand_over(self, worker: int, what: HandOver, now: float) -> _Call:
        """Make the worker's next call; the last member lets it end for all."""
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
