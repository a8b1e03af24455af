"""The simulation itself: events, and calls that share links.

Calls that take as long as links, buses and servers need: those that begin first are carried first.

The first phase of a call begins when its last member has made it, and those have ended for which it is held
back. If `CALLS_AT_ONCE` are under way on its
channel, it begins when one of these has ended. The second phase of a `push_pull` begins when the server has
answered, that of a mean when the first one has ended. Until then, other calls have gone ahead of it.

Simulates workers of any programs: operation by operation, calls in the order in which they begin.

A worker runs until it waits for a call whose end is not known yet. When all workers wait, the `Carrier`
carries what begins first. It is safe to carry it then: whatever a waiting worker does later comes later. So
links and buses serve phases in the order in which these begin.
"""

import heapq
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np

from thinwire.base.errors import UserError
from thinwire.base.placement import Cluster
from thinwire.simulation.call_seconds import CALLS_AT_ONCE, Loads, shape_of
from thinwire.simulation.groups import Groups, standing_for
from thinwire.simulation.links import Integers, Load
from thinwire.simulation.program import (
    Await,
    Carried,
    Carrier,
    Floats,
    HandOver,
    Hold,
    Program,
    Timeline,
    Work,
)


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

        Args:
            cluster: which workers share a node.
            loads: what calls put on the links.
            stands_for: [nodes]: the node that is simulated for each, see `standing_for`. The workers of these
                nodes are numbered from 0 on.
        """
        self._loads, self._links, self._groups = loads, loads.free_links(), Groups(cluster)
        nodes, alike = np.unique(stands_for, return_counts=True)
        self._alike = dict(zip(nodes.tolist(), alike.tolist()))  # by node: for how many it stands
        self._is_simulated = np.isin(np.arange(cluster.nodes), nodes)
        self._per_node = cluster.workers_per_node
        self._workers = np.flatnonzero(np.repeat(self._is_simulated, self._per_node)).tolist()
        # Of each simulated worker, by channel: its group, and how many calls it has made there.
        self._groups_of: list[dict[str, _Group]] = [{} for _ in self._workers]
        self._counts: list[dict[str, int]] = [{} for _ in self._workers]
        # By channel, its first member and the number of the call on it.
        self._incomplete: dict[tuple[str, int, int], _Call] = {}
        # A heap of phases: those that begin first come first, and of these the first of each channel.
        self._phases: list[_Phase] = []
        self._server_free: defaultdict[int, float] = defaultdict(float)  # by worker
        # By the channel and its first member: a heap of the ends of calls under way, which are infinite until
        # they are known, and the calls that wait for one of these ends.
        self._under_way: dict[tuple[str, int], list[float]] = {}
        self._waiting: dict[tuple[str, int], deque[_Phase]] = {}
        self._known: dict[tuple[HandOver, int], Load] = {}  # by call and the first member
        self.sent_bytes = self.between_nodes_bytes = 0

    def hand_over(self, worker: int, what: HandOver, now: float, after: Sequence[Any] = ()) -> _Call:
        """Make or join the next call on a channel."""
        channel, counts = what.channel, self._counts[worker]
        group = self._groups_of[worker].get(channel) or self._join(worker, channel)
        number = counts[channel] = counts.get(channel, 0) + 1
        first = group.members.start
        key = (channel, first, number)
        call = self._incomplete.get(key)
        if call is None:
            server = group.members[what.partner]
            call = _Call(self._load(what, group), server, what.server_seconds, group.simulated)
            call.after += after
            self._incomplete[key] = call
        call.begin = max(call.begin, now)
        call.missing -= 1
        if not call.missing:
            del self._incomplete[key]
            self.sent_bytes += group.alike * call.load.sent_bytes
            self.between_nodes_bytes += group.alike * call.load.between_nodes_bytes
            self._let_begin((call.begin, number, first, channel, call))
        return call

    def _join(self, worker: int, channel: str) -> _Group:
        """The group of a simulated worker on a channel."""
        members = self._groups.of(self._workers[worker], channel)
        if channel == "node":
            group = _Group(members, len(members), self._alike[members.start // self._per_node])
        else:
            group = _Group(members, sum(1 for own in self._workers if own in members), 1)
        self._groups_of[worker][channel] = group
        return group

    def _load(self, what: HandOver, group: _Group) -> Load:
        """Of a call, on the links and buses of the simulated nodes."""
        key = (what, group.members.start)
        if key not in self._known:
            load = self._loads.of(shape_of(what, group.members))
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


_WORK, _HAND_OVER, _HOLD, _AWAIT, _END_STEP = range(5)


def simulate(programs: Sequence[Program], cluster: Cluster, loads: Loads, pace: Floats) -> Timeline:
    """Simulate workers on a described cluster.

    Args:
        programs: of all workers; workers of one role may share a program.
        cluster: which workers share a node.
        loads: what calls put on the links.
        pace: [steps, workers]: a factor of the computation's seconds.

    Raises:
        UserError: the workers wait for each other for ever.
    """
    stands_for = standing_for(programs, cluster, loads, pace)
    places = np.arange(cluster.workers_per_node)
    workers = (stands_for[:, None] * cluster.workers_per_node + places).flatten()
    return run(programs, CallsOnLinks(cluster, loads, stands_for), pace, workers)


def run(
    programs: Sequence[Program], carrier: Carrier, pace: Floats, stands_for: Integers | None = None
) -> Timeline:
    """Simulate workers whose calls a `Carrier` carries.

    Args:
        programs: of all workers.
        carrier: knows those that are simulated by their numbers among these.
        pace: as in `simulate`.
        stands_for: [workers]: the worker that is simulated for each, if these are not all.

    Raises:
        UserError: the workers wait for each other for ever.
    """
    if stands_for is None:
        stands_for = np.arange(len(programs))
    simulated, number_of = np.unique(stands_for, return_inverse=True)
    own = [programs[worker] for worker in simulated]
    return _EventLoop(own, carrier, pace[:, simulated]).run(number_of)


class _EventLoop:
    def __init__(self, programs: Sequence[Program], carrier: Carrier, pace: Floats) -> None:
        self._workers, self._carrier = len(programs), carrier
        self._pace = pace.T.tolist()
        flat = {key: _flat(program) for key, program in {id(p): p for p in programs}.items()}
        self._operations = [flat[id(program)] for program in programs]
        # Of each worker.
        self._place = [0] * self._workers  # of its next operation
        self._now = [0.0] * self._workers
        self._made: list[list[Carried]] = [[] for _ in programs]
        self._waits = [[0.0] * 4 for _ in programs]
        self._rows: list[list[tuple[float, ...]]] = [[] for _ in programs]

    def run(self, number_of: Integers) -> Timeline:
        """Simulate; `number_of` gives for each worker the number of the one that stands for it: [workers]."""
        ready: list[int] | None = list(range(self._workers))
        while ready is not None:
            while ready:
                self._advance(ready.pop())
            ready = self._carrier.carry()
        if any(place < len(own) for place, own in zip(self._place, self._operations)):
            raise UserError(
                "the simulated workers wait for each other for ever: the schedules of their roles differ"
            )
        rows = np.array(self._rows)[number_of]  # [workers, steps, 5]
        ends, computed, others, served, communicated = rows.transpose(2, 1, 0)
        sent, between = self._carrier.sent_bytes, self._carrier.between_nodes_bytes
        operations = int(np.array(self._place)[number_of].sum())
        return Timeline(ends, computed, others, served, communicated, operations, sent, between)

    def _advance(self, worker: int) -> None:
        """Run a worker until it waits for a call whose end is not known, or until its end."""
        operations, place = self._operations[worker], self._place[worker]
        now, made = self._now[worker], self._made[worker]
        pace, rows, hand_over = self._pace[worker], self._rows[worker], self._carrier.hand_over
        step, last = len(rows), len(operations)
        waits = self._waits[worker]
        held: list[Carried] = []  # calls for whose end the next one is held back
        while place < last:
            code, what = operations[place]
            if code == _WORK:
                seconds = what * pace[step]
                now += seconds
                waits[0] += seconds
            elif code == _HAND_OVER:
                made.append(hand_over(worker, what, now, held))
                held = []
            elif code == _HOLD:
                held.append(made[what])
            elif code == _AWAIT:
                call = made[what]
                if call.end < 0:
                    call.blocked.append(worker)
                    break
                idle = call.end - now
                if idle > 0:
                    others = min(max(call.begin - now, 0.0), idle)
                    server = min(call.served, idle - others)
                    waits[1] += others
                    waits[2] += server
                    waits[3] += idle - others - server
                    now = call.end
            else:
                rows.append((now, *waits))
                waits[:] = (0.0, 0.0, 0.0, 0.0)
                step += 1
            place += 1
        self._place[worker], self._now[worker] = place, now


def _flat(program: Program) -> list[tuple[int, Any]]:
    """The operations of a program in one list; a mark ends each step."""
    flat: list[tuple[int, Any]] = []
    for step in program:
        for operation in step:
            match operation:
                case Work(seconds):
                    flat.append((_WORK, seconds))
                case HandOver():
                    flat.append((_HAND_OVER, operation))
                case Hold(call):
                    flat.append((_HOLD, call))
                case Await(call):
                    flat.append((_AWAIT, call))
        flat.append((_END_STEP, None))
    return flat
