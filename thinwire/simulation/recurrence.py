"""Simulates workers that all have the same program, as a recurrence over arrays of all workers.

It computes what `event_loop` computes, operation by operation for all workers at once. It carries calls in
the order of the program, and `event_loop` in the order in which they begin. The two orders differ if a
group of workers can overtake another group on the same links. They also differ if calls on one channel can
overtake calls on another channel. `applies` excludes both.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from thinwire.base.placement import Cluster
from thinwire.simulation.call_seconds import CALLS_AT_ONCE, Load, Loads, shape_of
from thinwire.simulation.program import Await, Floats, HandOver, Hold, Program, Timeline, Work

# So few links are faster one by one than as an array.
_FEW = 16


@dataclass(frozen=True, eq=False)
class _Call:
    """A call of every worker, on its own channel of that name."""

    begin: Floats  # [workers]
    end: Floats


def applies(programs: Sequence[Program], cluster: Cluster, loads: Loads) -> bool:
    """Can these programs be simulated here?

    All need to be one. There may be no servers, whose answers could come after later calls, no calls that are
    held back, and no groups that share the links of nodes. Between nodes only one channel may be used, and no
    call may have phases that others can go between.
    """
    if loads.means_in_two_phases or any(program is not programs[0] for program in programs):
        return False
    calls = [operation for step in programs[0] for operation in step if isinstance(operation, HandOver)]
    if any(isinstance(operation, Hold) for step in programs[0] for operation in step):
        return False
    if any(call.verb == "push_pull" for call in calls):
        return False
    channels = {call.channel for call in calls if len(cluster.groups(0)[call.channel]) > 1}
    if cluster.nodes > 1 and len(channels) > 1:
        return False
    share_links = cluster.workers_per_node > 1 and cluster.nodes > 1
    return not share_links or all(call.channel != "across" for call in calls)


def simulate(program: Program, cluster: Cluster, loads: Loads, pace: Floats) -> Timeline:
    """Simulate; the arguments are those of `event_loop.simulate`, with one program for all."""
    return _Recurrence(cluster, loads).run(program, pace)


class _Recurrence:
    def __init__(self, cluster: Cluster, loads: Loads) -> None:
        self._cluster, self._loads = cluster, loads
        # When each sending link, receiving link and bus becomes free.
        sizes = (loads.links, loads.links, cluster.nodes)
        self._free = tuple(np.full(size, -ahead) for ahead, size in zip(loads.ahead_seconds, sizes))
        # The groups of each channel: of a node, the workers with one place on their nodes, all workers.
        workers = np.arange(cluster.workers).reshape(cluster.nodes, -1)
        self._groups = {"node": [*workers], "across": [*workers.T], "world": [workers.flatten()]}
        self._known: dict[tuple[HandOver, int], Load] = {}
        # A heap of the ends of calls under way, by the channel and the index of the group.
        self._under_way: dict[tuple[str, int], list[float]] = {}
        self._sent = self._between = 0

    def run(self, program: Program, pace: Floats) -> Timeline:
        now = np.zeros(self._cluster.workers)
        calls: list[_Call] = []
        parts = np.zeros((5, len(program), self._cluster.workers))
        ends, computed, others, served, communicated = parts  # no server: see `applies`
        operations = 0
        for number, step in enumerate(program):
            for operation in step:
                match operation:
                    case Work(seconds):
                        spent = seconds * pace[number]
                        now = now + spent
                        computed[number] += spent
                    case HandOver():
                        calls.append(self._carry(operation, now))
                    case Await(call):
                        made = calls[call]
                        idle = np.maximum(made.end - now, 0.0)
                        for_others = np.minimum(np.maximum(made.begin - now, 0.0), idle)
                        others[number] += for_others
                        communicated[number] += idle - for_others
                        now = now + idle
            operations += len(step) + 1
            ends[number] = now
        total = operations * self._cluster.workers
        return Timeline(ends, computed, others, served, communicated, total, self._sent, self._between)

    def _carry(self, what: HandOver, now: Floats) -> _Call:
        """Carry the calls of all groups on a channel; the group that begins first is the first."""
        begin, end = now.copy(), now.copy()
        groups = self._groups[what.channel]
        begins = np.array([now[members].max() for members in groups])
        for index in np.argsort(begins, kind="stable"):
            members = groups[index]
            load = self._load(what, int(index))
            begin[members] = begins[index]
            end[members] = self._carry_queued(what.channel, int(index), load, float(begins[index]))
            self._sent += load.sent_bytes
            self._between += load.between_nodes_bytes
        return _Call(begin, end)

    def _load(self, what: HandOver, index: int) -> Load:
        """Of a call of the group with this index; calls of one kind share it."""
        load = self._known.get((what, index))
        if load is None:
            members = tuple(self._groups[what.channel][index].tolist())
            load = self._known[(what, index)] = self._loads.of(shape_of(what, members))
        return load

    def _carry_queued(self, channel: str, index: int, load: Load, begin: float) -> float:
        """The end of the call of one group; it may have to wait for earlier calls."""
        if not load.queued:
            return self._carry_one(load, begin)
        under_way = self._under_way.setdefault((channel, index), [0.0] * CALLS_AT_ONCE)
        end = self._carry_one(load, max(begin, under_way[0]))
        heapq.heapreplace(under_way, end)
        return end

    def _carry_one(self, load: Load, begin: float) -> float:
        """The end of the call of one group."""
        if not load.phases:
            return begin
        (phase,) = load.phases
        last = begin
        arrays = (phase.out_seconds, phase.in_seconds, phase.bus_seconds)
        for free, seconds, busy, ahead in zip(self._free, arrays, phase.busy, self._loads.ahead_seconds):
            if len(busy) < _FEW:
                for place, more in busy:
                    free[place] = max(free[place], begin - ahead) + more
                    last = max(last, free[place])
            else:
                ends = np.maximum(free, begin - ahead) + seconds
                np.copyto(free, ends, where=seconds > 0)
                last = max(last, ends[seconds > 0].max())
        return max(last + phase.latency_seconds, begin + phase.least_seconds)
