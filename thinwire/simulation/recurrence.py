"""Simulates workers that all have the same program, as a recurrence over arrays of all workers.

It computes what `event_loop` computes, operation by operation for all workers at once. It carries calls in
the order of the program, and `event_loop` in the order in which they begin. The two orders differ if a
group of workers can overtake another group on the same links. They also differ if calls on one channel can
overtake calls on another channel. `applies` excludes both.
"""

import heapq
from collections.abc import Sequence

import numpy as np

from thinwire.base.placement import Cluster
from thinwire.simulation import event_loop
from thinwire.simulation.call_seconds import CALLS_AT_ONCE, Loads
from thinwire.simulation.links import Load
from thinwire.simulation.operations import MESSAGES
from thinwire.simulation.program import Await, Floats, HandOver, Hold, Program, Timeline, Work, groups_on


def simulate_either_way(
    programs: Sequence[Program], cluster: Cluster, loads: Loads, pace: Floats
) -> Timeline:
    """Simulate here where that is possible, which is faster, and otherwise with `event_loop.simulate`."""
    if applies(programs, cluster, loads):
        return simulate(programs[0], cluster, loads, pace)
    return event_loop.simulate(programs, cluster, loads, pace)


def applies(programs: Sequence[Program], cluster: Cluster, loads: Loads) -> bool:
    """Can these programs be simulated here?

    All need to be one. There may be no servers, whose answers could come after later calls, and no messages.
    No calls may be held back, and no groups may share the links of nodes. Between nodes only one channel may
    be used, and no call may have phases that others can go between.
    """
    if loads.means_in_two_phases or any(program is not programs[0] for program in programs):
        return False
    calls = [operation for step in programs[0] for operation in step if isinstance(operation, HandOver)]
    if any(isinstance(operation, Hold) for step in programs[0] for operation in step):
        return False
    if any(call.verb in ("push_pull", *MESSAGES) for call in calls):
        return False
    sizes = {channel: len(members) for channel, members in cluster.groups(0).items()}
    channels = {call.channel for call in calls if sizes[call.channel] > 1}
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
        self._links = loads.free_links()
        # A heap of the ends of calls under way, by the channel and the index of the group.
        self._under_way: dict[tuple[str, int], list[float]] = {}
        self._sent = self._between = 0

    def run(self, program: Program, pace: Floats) -> Timeline:
        now = np.zeros(self._cluster.workers)
        calls: list[tuple[Floats, Floats]] = []  # of each: when it begins and ends, [workers]
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
                        begin, end = calls[call]
                        idle = np.maximum(end - now, 0.0)
                        for_others = np.minimum(np.maximum(begin - now, 0.0), idle)
                        others[number] += for_others
                        communicated[number] += idle - for_others
                        now = now + idle
            operations += len(step) + 1
            ends[number] = now
        total = operations * self._cluster.workers
        return Timeline(ends, computed, others, served, communicated, total, self._sent, self._between)

    def _carry(self, what: HandOver, now: Floats) -> tuple[Floats, Floats]:
        """Carry the calls of all groups on a channel; the group that begins first is the first."""
        begin, end = now.copy(), now.copy()
        groups = groups_on(self._cluster, what.channel)
        begins = np.array([now[_slice(members)].max() for members in groups])
        for index in np.argsort(begins, kind="stable").tolist():
            load = self._loads.of(what, groups[index])
            members = _slice(groups[index])
            begin[members] = begins[index]
            end[members] = self._carry_one(what.channel, index, load, float(begins[index]))
            self._sent += load.sent_bytes
            self._between += load.between_nodes_bytes
        return begin, end

    def _carry_one(self, channel: str, index: int, load: Load, begin: float) -> float:
        """The end of the call of one group; it may have to wait for earlier calls."""
        if not load.phases:
            return begin
        (phase,) = load.phases
        if not load.queued:
            return self._links.carry(phase, begin)
        under_way = self._under_way.setdefault((channel, index), [0.0] * CALLS_AT_ONCE)
        end = self._links.carry(phase, max(begin, under_way[0]))
        heapq.heapreplace(under_way, end)
        return end


def _slice(members: range) -> slice:
    return slice(members.start, members.stop, members.step)
