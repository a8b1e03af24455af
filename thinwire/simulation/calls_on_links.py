"""Calls that take as long as links, buses and servers need: those that begin first are carried first.

The first phase of a call begins when its last member has made it. If `CALLS_AT_ONCE` are under way on its
channel, it begins when one of these has ended. The second phase of a `push_pull` begins when the server has
answered, that of a mean when the first one has ended. Until then, other calls have gone ahead of it.
"""

import heapq
from collections import deque
from dataclasses import dataclass, field
from math import inf

from thinwire.simulation.call_seconds import CALLS_AT_ONCE, Load, Loads, shape_of
from thinwire.simulation.program import HandOver
from thinwire.worker_placement import Cluster


@dataclass(slots=True)
class _Call:
    """A call of all members of a channel."""

    load: Load
    server: int  # the worker that hosts the server
    server_seconds: float
    missing: int  # members that have not made it yet
    begin: float = 0.0
    end: float = -1.0
    carried: int = 0  # phases
    served: float = 0.0
    blocked: list[int] = field(default_factory=list)


# The next phase of a call: when it begins, the call's number on its channel, the channel's first member, the
# channel, and the call.
_Phase = tuple[float, int, int, str, _Call]


class CallsOnLinks:
    """A `Carrier` for a described cluster."""

    def __init__(self, cluster: Cluster, loads: Loads) -> None:
        """Begin with free links.

        Args:
            cluster: which workers share a node.
            loads: what calls put on the links.
        """
        self._loads = loads
        self._groups = [cluster.groups(worker) for worker in range(cluster.workers)]
        self._counts: list[dict[str, int]] = [{} for _ in range(cluster.workers)]
        # By channel, its first member and the number of the call on it.
        self._incomplete: dict[tuple[str, int, int], _Call] = {}
        # A heap of phases: those that begin first come first, and of these the first of each channel.
        self._phases: list[_Phase] = []
        sizes = (loads.links, loads.links, cluster.nodes)
        # When each sending link, receiving link and bus becomes free.
        self._free = tuple([-ahead] * size for ahead, size in zip(loads.ahead_seconds, sizes))
        self._server_free = [0.0] * cluster.workers
        # By the channel and its first member: a heap of the ends of calls under way, which are infinite until
        # they are known, and the calls that wait for one of these ends.
        self._under_way: dict[tuple[str, int], list[float]] = {}
        self._waiting: dict[tuple[str, int], deque[_Phase]] = {}
        self._known: dict[tuple[HandOver, int], Load] = {}  # by call and the first member
        self.sent_bytes = self.between_nodes_bytes = 0

    def hand_over(self, worker: int, what: HandOver, now: float) -> _Call:
        """Make or join the next call on a channel."""
        members, counts = self._groups[worker][what.channel], self._counts[worker]
        number = counts[what.channel] = counts.get(what.channel, 0) + 1
        key = (what.channel, members[0], number)
        call = self._incomplete.get(key)
        if call is None:
            load = self._known.get((what, members[0]))
            if load is None:
                load = self._known[(what, members[0])] = self._loads.of(shape_of(what, members))
            call = _Call(load, members[what.partner], what.server_seconds, len(members))
            self._incomplete[key] = call
        call.begin = max(call.begin, now)
        call.missing -= 1
        if not call.missing:
            del self._incomplete[key]
            self.sent_bytes += call.load.sent_bytes
            self.between_nodes_bytes += call.load.between_nodes_bytes
            heapq.heappush(self._phases, (call.begin, number, members[0], what.channel, call))
        return call

    def carry(self) -> list[int] | None:
        """Carry the phase that begins first; whatever a waiting worker does later comes later."""
        if not self._phases:
            return None
        phase = begin, number, first, channel, call = heapq.heappop(self._phases)
        group = (channel, first)
        if call.load.queued and not call.carried:
            under_way = self._under_way.setdefault(group, [0.0] * CALLS_AT_ONCE)
            if under_way[0] == inf:
                self._waiting.setdefault(group, deque()).append(phase)
                return []
            if under_way[0] > begin:
                heapq.heappush(self._phases, (under_way[0], number, first, channel, call))
                return []
            heapq.heapreplace(under_way, inf)
        end = self._carry_phase(call, begin)
        if call.carried < len(call.load.phases):
            following = end if call.load.queued else self._serve(call, end)
            heapq.heappush(self._phases, (following, number, first, channel, call))
            return []
        if call.load.queued:
            under_way = self._under_way[group]
            under_way[under_way.index(inf)] = end
            heapq.heapify(under_way)
            if waiting := self._waiting.get(group):
                heapq.heappush(self._phases, waiting.popleft())
        call.end = end
        ready, call.blocked = call.blocked, []
        return ready

    def _carry_phase(self, call: _Call, begin: float) -> float:
        """Carry the next phase of a call, which keeps links and buses busy; returns its end."""
        if not call.load.phases:
            return begin
        phase = call.load.phases[call.carried]
        call.carried += 1
        last = begin
        for free, busy, ahead in zip(self._free, phase.busy, self._loads.ahead_seconds):
            for place, seconds in busy:
                end = free[place] = max(free[place], begin - ahead) + seconds
                last = max(last, end)
        return max(last + phase.latency_seconds, begin + phase.least_seconds)

    def _serve(self, call: _Call, arrived: float) -> float:
        """The moment when the server has answered; it serves one call after the other."""
        done = max(arrived, self._server_free[call.server]) + call.server_seconds
        self._server_free[call.server] = done
        call.served = done - arrived
        return done
