"""Calls that take as long as links, buses and servers need: those that begin first are carried first.

The first phase of a call begins when its last member has made it, and those have ended for which it is held
back. If `CALLS_AT_ONCE` are under way on its channel, it begins when one of these has ended. The second phase
of a `push_pull` begins when the server has answered, that of a mean when the first one has ended. Until then,
other calls have gone ahead of it. A message begins when both of its ends have made it.
"""

import heapq
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from thinwire.base.placement import Cluster
from thinwire.simulation.call_seconds import CALLS_AT_ONCE, NO_LOAD, Integers, Load, Loads
from thinwire.simulation.program import (
    MESSAGES,
    Carried,
    Floats,
    HandOver,
    Hold,
    Program,
    group_of,
    groups_on,
)


@dataclass(slots=True)
class _Call(Carried):
    """A call of all members of a channel."""

    load: Load = NO_LOAD
    server: int = 0  # the worker that hosts the server
    server_seconds: float = 0.0
    missing: int = 1  # members that have not made it yet
    carried: int = 0  # phases
    after: list["_Call"] = field(default_factory=list)  # for whose end it is held back
    held: list["_Phase"] = field(default_factory=list)  # the calls that are held back for its end


# The next phase of a call: when it begins, the call's number on its channel, the channel's first member, the
# channel, and the call.
_Phase = tuple[float, int, int, str, _Call]


@dataclass(slots=True)
class _Group:
    """Workers that make calls together on a channel."""

    members: range
    simulated: int  # members that are simulated
    alike: int  # groups for which it stands, itself included


class CallsOnLinks:
    """A `Carrier` for a described cluster."""

    def __init__(self, cluster: Cluster, loads: Loads, stands_for: Integers) -> None:
        """Begin with free links.

        `stands_for` is the node that is simulated for each: [nodes]. Their workers are numbered from 0 on.
        """
        self._loads, self._links, self._cluster = loads, loads.free_links(), cluster
        nodes, alike = np.unique(stands_for, return_counts=True)
        self._alike = dict(zip(nodes.tolist(), alike.tolist()))  # by node: for how many it stands
        self._is_simulated = np.isin(np.arange(cluster.nodes), nodes)
        self._workers = np.flatnonzero(np.repeat(self._is_simulated, cluster.workers_per_node)).tolist()
        # Of each simulated worker, by channel: its group, and how many calls it has made there.
        self._groups_of: list[dict[str, _Group]] = [{} for _ in self._workers]
        self._counts: list[dict[str, int]] = [{} for _ in self._workers]
        # By channel, its first member and the number of the call on it.
        self._incomplete: dict[tuple[str, int, int], _Call] = {}
        # A heap of phases: those that begin first come first, and of these the first of each channel.
        self._phases: list[_Phase] = []
        self._server_free: defaultdict[int, float] = defaultdict(float)  # by worker
        # By the channel and its first member: a heap of the ends of calls under way, and the calls that wait
        # for one of these ends. An end is infinite until it is known.
        self._under_way: dict[tuple[str, int], list[float]] = {}
        self._waiting: dict[tuple[str, int], deque[_Phase]] = {}
        self._known: dict[tuple[HandOver, int], Load] = {}  # by call and the first member
        # By verb and channel: how many messages were made on each way. By channel, way and number: messages
        # of which one end is missing.
        self._messages: defaultdict[tuple[str, str], Counter[tuple[int, int]]] = defaultdict(Counter)
        self._half_made: dict[tuple[str, int, int, int], _Call] = {}
        self.sent_bytes = self.between_nodes_bytes = 0

    def hand_over(self, worker: int, what: HandOver, now: float, after: Sequence[_Call] = ()) -> _Call:
        """Make or join the next call on a channel."""
        channel, counts = what.channel, self._counts[worker]
        group = self._groups_of[worker].get(channel) or self._join(worker, channel)
        if what.verb in MESSAGES:
            return self._message(self._workers[worker], group.members, what, now, after)
        number = counts[channel] = counts.get(channel, 0) + 1
        first = group.members.start
        key = (channel, first, number)
        call = self._incomplete.get(key)
        if call is None:
            call = self._incomplete[key] = _Call(
                load=self._load(what, group),
                server=group.members[what.partner],
                server_seconds=what.server_seconds,
                missing=group.simulated,
                after=[*after],
            )
        call.begin = max(call.begin, now)
        call.missing -= 1
        if not call.missing:
            del self._incomplete[key]
            self.sent_bytes += group.alike * call.load.sent_bytes
            self.between_nodes_bytes += group.alike * call.load.between_nodes_bytes
            self._let_begin((call.begin, number, first, channel, call))
        return call

    def _message(
        self, worker: int, members: range, what: HandOver, now: float, after: Sequence[_Call]
    ) -> _Call:
        """Send or receive the next message to or from another worker. It begins when both have done so."""
        other = members[(members.index(worker) + what.partner) % len(members)]
        route = (worker, other) if what.verb == "send" else (other, worker)
        made, key = self._messages[what.verb, what.channel], (what.channel, *route)
        number = made[route] = made[route] + 1
        call = self._half_made.pop((*key, number), None)
        if call is None:
            call = self._half_made[*key, number] = _Call()
        else:
            call.missing = 0
        call.begin = max(call.begin, now)
        call.after += after
        if what.verb == "send":
            call.load = self._loads.of_message(*route, what.push_bytes)
        if not call.missing:
            self.sent_bytes += call.load.sent_bytes
            self.between_nodes_bytes += call.load.between_nodes_bytes
            self._let_begin((call.begin, number, route[0], f"{what.channel} to {route[1]}", call))
        return call

    def _join(self, worker: int, channel: str) -> _Group:
        """The group of a simulated worker on a channel."""
        members = group_of(self._cluster, self._workers[worker], channel)
        if channel == "node":
            group = _Group(members, len(members), self._alike[self._cluster.node_of(members.start)])
        else:
            group = _Group(members, sum(1 for own in self._workers if own in members), 1)
        self._groups_of[worker][channel] = group
        return group

    def _load(self, what: HandOver, group: _Group) -> Load:
        """Of a call, on the links and buses of the simulated nodes."""
        key = (what, group.members.start)
        if key not in self._known:
            load = self._loads.of(what, group.members)
            self._known[key] = load if self._is_simulated.all() else self._loads.on(self._is_simulated, load)
        return self._known[key]

    def _let_begin(self, phase: _Phase) -> None:
        """Let the first phase of a call begin when all calls have ended for which it is held back."""
        begin, number, first, channel, call = phase
        for earlier in call.after:
            if earlier.end < 0:
                earlier.held.append(phase)
                return
            begin = max(begin, earlier.end)
        heapq.heappush(self._phases, (begin, number, first, channel, call))

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
        for held in call.held:
            self._let_begin(held)
        ready, call.blocked = call.blocked, []
        return ready

    def _carry_phase(self, call: _Call, begin: float) -> float:
        """Carry the next phase of a call, which keeps links and buses busy; returns its end."""
        if not call.load.phases:
            return begin
        call.carried += 1
        return self._links.carry(call.load.phases[call.carried - 1], begin)

    def _serve(self, call: _Call, arrived: float) -> float:
        """The moment when the server has answered; it serves one call after the other."""
        done = max(arrived, self._server_free[call.server]) + call.server_seconds
        self._server_free[call.server] = done
        call.served = done - arrived
        return done


def standing_for(programs: Sequence[Program], cluster: Cluster, loads: Loads, pace: Floats) -> Integers:
    """For each node the first one that behaves like it, and is simulated for it.

    In a large cluster, most nodes do the same at the same time: their workers have the same programs, and
    each call keeps their links busy for as long. Arguments are those of `simulate`.

    The first node stands only for itself: among calls that begin at the same moment, its own come first.

    Returns:
        [nodes]: each of these nodes stands for itself, too.
    """
    kinds = {id(program): program for program in programs}
    if not _can_stand([*kinds.values()]):
        return np.arange(cluster.nodes)
    of_programs = np.array([*map(id, programs)]).reshape(cluster.nodes, -1)
    of_paces = np.ascontiguousarray(pace.T).reshape(cluster.nodes, -1)
    found: dict[object, int] = {}
    kind = [
        found.setdefault((node == 0, own.tobytes(), paces.tobytes()), len(found))
        for node, (own, paces) in enumerate(zip(of_programs, of_paces))
    ]
    if len(found) < cluster.nodes:
        handed = {op: None for program in kinds.values() for step in program for op in step}
        for call in handed:
            if isinstance(call, HandOver) and call.channel != "node":
                for members in groups_on(cluster, call.channel):
                    _tell_apart(kind, _busy_seconds(call, members, cluster, loads))
    first: dict[int, int] = {}
    return np.array([first.setdefault(own, node) for node, own in enumerate(kind)])


def _can_stand(programs: Sequence[Program]) -> bool:
    """Are there no messages, and does it not matter which member makes a call first?

    The first one says how large the call is, and for which others it is held back.
    """
    handed: defaultdict[str, set[tuple[HandOver, ...]]] = defaultdict(set)
    holds = False
    for program in programs:
        instructions = [instruction for step in program for instruction in step]
        holds = holds or any(isinstance(each, Hold) for each in instructions)
        calls = [each for each in instructions if isinstance(each, HandOver)]
        if any(call.verb in MESSAGES for call in calls):
            return False
        for channel in {call.channel for call in calls}:
            handed[channel].add(tuple(call for call in calls if call.channel == channel))
    if holds and (len(programs) > 1 or len(handed) > 1):
        return False
    return all(len(alike) == 1 for channel, alike in handed.items() if channel != "node")


def _busy_seconds(call: HandOver, members: range, cluster: Cluster, loads: Loads) -> Floats:
    """[nodes, links and buses]: how long a call keeps those of each node busy."""
    columns = [np.zeros((cluster.nodes, 0))]
    for phase in loads.of(call, members).phases:
        for busy, size in zip(phase.busy, (loads.links, loads.links, cluster.nodes)):
            seconds = np.zeros(size)
            seconds[busy.places] = busy.seconds
            columns.append(seconds.reshape(cluster.nodes, -1))
    return np.concatenate(columns, axis=1)


def _tell_apart(kind: list[int], seconds: Floats) -> None:
    """Give a new kind to nodes that differ from the last one, whatever their kind was."""
    new: dict[tuple[int, bytes], int] = {}
    free = max(kind) + 1
    for node in np.flatnonzero((seconds != seconds[-1]).any(axis=1)).tolist():
        kind[node] = new.setdefault((kind[node], seconds[node].tobytes()), free + len(new))
