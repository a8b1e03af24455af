"""The links between nodes and the memory buses inside them: what calls put on them, and until when."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]

# So few links are faster one by one than as an array.
_FEW = 16


@dataclass(frozen=True, eq=False)
class Busy:
    """The links of one direction, or the buses, that transfers keep busy."""

    places: Integers  # [busy]: their numbers
    seconds: Floats  # [busy]: for how long

    @classmethod
    def of(cls, seconds: Floats) -> "Busy":
        """From the seconds of all links or buses; most of them may be 0."""
        places = np.flatnonzero(seconds)
        return cls(places, seconds[places])

    @classmethod
    def only(cls, *busy: tuple[int, float]) -> "Busy":
        """From the numbers and seconds of the few that are busy."""
        return cls(np.array([place for place, _ in busy], np.intp), np.array([s for _, s in busy], float))

    def among(self, kept: NDArray[np.bool_]) -> "Busy":
        """Without the links or buses that are not kept."""
        own = kept[self.places]
        return self if own.all() else Busy(self.places[own], self.seconds[own])

    @cached_property
    def few(self) -> list[tuple[int, float]] | None:
        """The same one by one; None if they are many."""
        return None if len(self.places) >= _FEW else [*zip(self.places.tolist(), self.seconds.tolist())]


@dataclass(frozen=True, eq=False)
class Phase:
    """Transfers that go on at the same time."""

    busy: tuple[Busy, Busy, Busy]  # sending links, receiving links, buses
    latency_seconds: float  # until the last byte has arrived, beyond the above
    least_seconds: float  # from the begin to the end, however few the bytes: all hops follow one another

    def among(self, links: NDArray[np.bool_], nodes: NDArray[np.bool_]) -> "Phase":
        """The part on links and on buses of nodes that are True: [links] in each direction, [nodes]."""
        out, into, buses = self.busy
        return replace(self, busy=(out.among(links), into.among(links), buses.among(nodes)))


@dataclass(frozen=True, eq=False)
class Load:
    """What one call puts on the cluster."""

    phases: tuple[Phase, ...]
    sent_bytes: int  # by all members together, on links and buses
    between_nodes_bytes: int  # of these, on links
    queued: bool = False  # does it wait until fewer than `CALLS_AT_ONCE` calls of its group are under way?


class Links:
    """When each sending link, receiving link and bus becomes free."""

    def __init__(self, links: int, nodes: int, ahead_seconds: tuple[float, float, float]) -> None:
        """Begin with all of them free.

        Args:
            links: their number, in each direction.
            nodes: as many buses there are.
            ahead_seconds: by how many seconds a sending link, a receiving link and a bus are done earlier if
                they were free.
        """
        self._ahead = ahead_seconds
        self._free = tuple(np.full(size, -ahead) for size, ahead in zip((links, links, nodes), ahead_seconds))

    def carry(self, phase: Phase, begin: float) -> float:
        """Keep busy what a phase needs, from its begin on or from when it is free; returns its end."""
        last = begin
        for free, busy, ahead in zip(self._free, phase.busy, self._ahead):
            if busy.few is None:
                ends = np.maximum(free[busy.places], begin - ahead) + busy.seconds
                free[busy.places] = ends
                last = max(last, float(ends.max()))
            else:
                for place, seconds in busy.few:
                    end = free[place] = max(free.item(place), begin - ahead) + seconds
                    last = max(last, end)
        return max(last + phase.latency_seconds, begin + phase.least_seconds)
