"""Simulates workers of any programs: operation by operation, calls in the order in which they begin.

A worker runs until it waits for a call whose end is not known yet. When all workers wait, the phase that
begins first is carried. It is safe to carry it then: whatever a waiting worker does later comes later. So
links and buses serve phases in the order in which these begin. The first phase of a call begins when its last
member has made it, and the second one when the server has answered.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from thinwire.cluster import Cluster
from thinwire.errors import UserError
from thinwire.simulation.loads import Load, Loads, shape_of
from thinwire.simulation.program import Await, HandOver, Program, Work
from thinwire.simulation.timeline import Floats, Timeline

_WORK, _HAND_OVER, _AWAIT, _END_STEP = range(4)


@dataclass(slots=True)
class _Call:
    """A call of all members of a channel."""

    load: Load
    server: int  # the worker that hosts the server
    server_seconds: float
    missing: int  # members that have not made it yet
    begin: float = 0.0
    end: float = -1.0  # not known
    carried: int = 0  # phases
    served: float = 0.0  # seconds at the server, waiting and computing
    blocked: list[int] = field(default_factory=list)  # workers that wait for it


def simulate(
    programs: Sequence[Program], cluster: Cluster, loads: Loads, pace: Floats, stolen_seconds_per_byte: float
) -> Timeline:
    """Simulate.

    Args:
        programs: of all workers; workers of one role may share a program.
        cluster: which workers share a node.
        loads: what calls put on the links.
        pace: [steps, workers]: a factor of the computation's seconds.
        stolen_seconds_per_byte: that the transport takes from a worker's core for each byte that it hands
            over; it takes at most half of the core.

    Raises:
        UserError: the workers wait for each other for ever.
    """
    return _EventLoop(programs, cluster, loads, pace, stolen_seconds_per_byte).run()


class _EventLoop:
    def __init__(
        self, programs: Sequence[Program], cluster: Cluster, loads: Loads, pace: Floats, stolen: float
    ) -> None:
        self._workers, self._loads, self._stolen = cluster.workers, loads, stolen
        self._pace = pace.T.tolist()
        flat = {key: _flat(program) for key, program in {id(p): p for p in programs}.items()}
        self._operations = [flat[id(program)] for program in programs]
        self._groups = [cluster.groups(worker) for worker in range(cluster.workers)]
        # Of each worker.
        self._place = [0] * cluster.workers  # of its next operation
        self._now = [0.0] * cluster.workers
        self._debt = [0.0] * cluster.workers  # seconds that the transport still takes from its core
        self._made: list[list[_Call]] = [[] for _ in range(cluster.workers)]
        self._counts: list[dict[str, int]] = [{} for _ in range(cluster.workers)]
        self._waits = [[0.0] * 4 for _ in range(cluster.workers)]
        # By channel, its first member and the number of the call on it.
        self._incomplete: dict[tuple[str, int, int], _Call] = {}
        # A heap of phases: those that begin first come first, and of these the first of each channel.
        self._phases: list[tuple[float, int, int, str, _Call]] = []
        self._free = ([0.0] * loads.links, [0.0] * loads.links, [0.0] * cluster.nodes)
        self._server_free = [0.0] * cluster.workers
        self._rows: list[list[tuple[float, ...]]] = [[] for _ in range(cluster.workers)]
        self._known: dict[tuple[HandOver, int], Load] = {}  # by call and the first member
        self._sent = self._between = 0

    def run(self) -> Timeline:
        ready = list(range(self._workers))
        while ready or self._phases:
            while ready:
                self._advance(ready.pop())
            if self._phases:
                begin, number, first, channel, call = heapq.heappop(self._phases)
                end = self._carry(call, begin)
                if call.carried < len(call.load.phases):
                    heapq.heappush(self._phases, (self._serve(call, end), number, first, channel, call))
                else:
                    call.end = end
                    ready, call.blocked = call.blocked, []
        if any(place < len(own) for place, own in zip(self._place, self._operations)):
            raise UserError(
                "the simulated workers wait for each other for ever: the schedules of their roles differ"
            )
        rows = np.array(self._rows)  # [workers, steps, 5]
        ends, computed, others, served, communicated = rows.transpose(2, 1, 0)
        operations = sum(self._place)
        return Timeline(ends, computed, others, served, communicated, operations, self._sent, self._between)

    def _advance(self, worker: int) -> None:
        """Run a worker until it waits for a call whose end is not known, or until its end."""
        operations, place = self._operations[worker], self._place[worker]
        now, debt, made = self._now[worker], self._debt[worker], self._made[worker]
        pace, rows = self._pace[worker], self._rows[worker]
        step, last = len(rows), len(operations)
        waits = self._waits[worker]
        while place < last:
            code, what = operations[place]
            if code == _WORK:
                seconds = what * pace[step]
                if debt:
                    stolen = min(debt, seconds)
                    debt -= stolen
                    seconds += stolen
                now += seconds
                waits[0] += seconds
            elif code == _HAND_OVER:
                made.append(self._hand_over(worker, what, now))
                debt += self._stolen * (what.push_bytes + what.pull_bytes)
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
                    debt = max(debt - idle, 0.0)
                    now = call.end
            else:
                rows.append((now, *waits))
                waits[:] = (0.0, 0.0, 0.0, 0.0)
                step += 1
            place += 1
        self._place[worker], self._now[worker], self._debt[worker] = place, now, debt

    def _hand_over(self, worker: int, what: HandOver, now: float) -> _Call:
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
            self._sent += call.load.sent_bytes
            self._between += call.load.between_nodes_bytes
            heapq.heappush(self._phases, (call.begin, number, members[0], what.channel, call))
        return call

    def _carry(self, call: _Call, begin: float) -> float:
        """Carry the next phase of a call, which keeps links and buses busy; returns its end."""
        if not call.load.phases:
            return begin
        phase = call.load.phases[call.carried]
        call.carried += 1
        last = begin
        for free, busy in zip(self._free, phase.busy):
            for place, seconds in busy:
                end = free[place] = max(free[place], begin) + seconds
                last = max(last, end)
        return last + phase.latency_seconds

    def _serve(self, call: _Call, arrived: float) -> float:
        """When the server has answered, which serves one call after the other."""
        done = max(arrived, self._server_free[call.server]) + call.server_seconds
        self._server_free[call.server] = done
        call.served = done - arrived
        return done


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
                case Await(call):
                    flat.append((_AWAIT, call))
        flat.append((_END_STEP, None))
    return flat
