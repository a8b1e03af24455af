"""Simulates workers of any programs: operation by operation, calls in the order in which they begin.

A worker runs until it waits for a call whose end is not known yet. When all workers wait, the `Carrier`
carries what begins first. It is safe to carry it then: whatever a waiting worker does later comes later. So
links and buses serve phases in the order in which these begin.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from thinwire.base.errors import UserError
from thinwire.base.placement import Cluster
from thinwire.simulation.call_seconds import Loads
from thinwire.simulation.calls_on_links import CallsOnLinks
from thinwire.simulation.groups import standing_for
from thinwire.simulation.links import Integers
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
