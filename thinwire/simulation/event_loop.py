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
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np

from thinwire.base.errors import UserError
from thinwire.base.placement import Cluster
from thinwire.simulation.call_seconds import CALLS_AT_ONCE, Load, Loads, shape_of
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

    def hand_over(self, worker: int, what: HandOver, now: float, after: Sequence[Any] = ()) -> _Call:
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
            call.after += after
            self._incomplete[key] = call
        call.begin = max(call.begin, now)
        call.missing -= 1
        if not call.missing:
            del self._incomplete[key]
            self.sent_bytes += call.load.sent_bytes
            self.between_nodes_bytes += call.load.between_nodes_bytes
            self._let_begin((call.begin, number, members[0], what.channel, call))
        return call

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
    return run(programs, CallsOnLinks(cluster, loads), pace)


def run(programs: Sequence[Program], carrier: Carrier, pace: Floats) -> Timeline:
    """Simulate workers whose calls a `Carrier` carries; the other arguments are those of `simulate`.

    Raises:
        UserError: the workers wait for each other for ever.
    """
    return _EventLoop(programs, carrier, pace).run()


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

    def run(self) -> Timeline:
        ready: list[int] | None = list(range(self._workers))
        while ready is not None:
            while ready:
                self._advance(ready.pop())
            ready = self._carrier.carry()
        if any(place < len(own) for place, own in zip(self._place, self._operations)):
            raise UserError(
                "the simulated workers wait for each other for ever: the schedules of their roles differ"
            )
        rows = np.array(self._rows)  # [workers, steps, 5]
        ends, computed, others, served, communicated = rows.transpose(2, 1, 0)
        sent, between = self._carrier.sent_bytes, self._carrier.between_nodes_bytes
        return Timeline(ends, computed, others, served, communicated, sum(self._place), sent, between)

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
