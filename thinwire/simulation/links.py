"""The links between nodes and the memory buses inside them: what calls put on them, and until when."""

from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

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


NO_LOAD = Load((), 0, 0)


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


SEGMENT_BYTES = 2**20  # `maxSegmentSize` of gloo's all-reduce


def ring_latency_seconds(
    half_bytes: float, members: int, latency: float, rate_bytes_per_second: float, burst_seconds: float = 0.0
) -> float:
    """How much longer half an all-reduce of gloo takes than its bytes: all adding, or all passing on.

    A ring of W members has 2 (W-1) steps, so the algorithm waits for 2 (W-1) latencies. gloo waits longer: it
    cuts the bytes of a member into segments and has two under way. It sends a segment only when the receiver
    has said that it is ready, which takes another latency. The receiver says so when the last segment but one
    has arrived. Two members have one connection: then that word also goes behind what the receiver itself is
    sending.

    Source: gloo/allreduce.cc (`ring`) and gloo/transport/tcp/pair.cc (`sendNotifyRecvReady`) at PyTorch 2.x.

    Args:
        half_bytes: that a member sends in this half.
        members: of the ring.
        latency: of a link, one way, in seconds.
        rate_bytes_per_second: of a link, payload.
        burst_seconds: by how much a link is ahead of its rate after as long a pause. That before the first
            segment is not counted here.
    """
    in_all = ceil(half_bytes * members / (members - 1) / SEGMENT_BYTES)
    of_member = ceil(max(in_all, 2 * members) / members)
    segments = of_member * (members - 1)
    seconds = half_bytes / segments / rate_bytes_per_second
    handed_over: list[float] = []  # to the connection, by segment
    sent: list[float] = []
    for number in range(segments):
        ready = sent[number - 2] + latency if number >= 2 else 0.0
        before = [end for begin, end in zip(handed_over, sent) if begin <= ready]
        said = max([ready, *before]) if members == 2 else ready
        handed_over.append(max(ready, said + latency))
        free = sent[-1] if sent else handed_over[0]
        begin = max(free, handed_over[-1])
        sent.append(begin + seconds - min(burst_seconds, begin - free))
    return sent[-1] + latency - segments * seconds
