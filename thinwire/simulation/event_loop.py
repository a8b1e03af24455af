"""Simulates workers of any programs: operation by operation, calls in the order in which they begin.

A worker runs until it waits for a call whose end is not known yet. When all workers wait, the `Carrier`
carries what begins first. It is safe to carry it then: whatever a waiting worker does later comes later. So
links and buses serve phases in the order in which these begin.
"""

from collections.abc import Sequence

import numpy as np

from thinwire.base.errors import UserError
from thinwire.base.placement import Cluster
from thinwire.simulation.call_seconds import Loads
from thinwire.simulation.calls_on_links import CallsOnLinks
from thinwire.simulation.links import Integers
from thinwire.simulation.operations import MESSAGES
from thinwire.simulation.program import (
    Await,
    Carried,
    Carrier,
    Floats,
    HandOver,
    Hold,
    Operation,
    Program,
    Timeline,
    Work,
    groups_on,
)


def simulate(programs: Sequence[Program], cluster: Cluster, loads: Loads, pace: Floats) -> Timeline:
    """Simulate workers on a described cluster; workers of one role may share a program.

    The pace, [steps, workers], is a factor of the computation's seconds.

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
            operation = operations[place]
            if isinstance(operation, Work):
                seconds = operation.seconds * pace[step]
                now += seconds
                waits[0] += seconds
            elif isinstance(operation, HandOver):
                made.append(hand_over(worker, operation, now, held))
                held = []
            elif isinstance(operation, Hold):
                held.append(made[operation.call])
            elif isinstance(operation, Await):
                call = made[operation.call]
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


def _flat(program: Program) -> list[Operation | None]:
    """The operations of a program in one list; None ends each step."""
    return [operation for step in program for operation in (*step, None)]


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
    handed: dict[str, set[tuple[HandOver, ...]]] = {}
    holds = False
    for program in programs:
        operations = [operation for step in program for operation in step]
        if any(isinstance(operation, HandOver) and operation.verb in MESSAGES for operation in operations):
            return False
        holds = holds or any(isinstance(operation, Hold) for operation in operations)
        own: dict[str, list[HandOver]] = {}
        for operation in operations:
            if isinstance(operation, HandOver):
                own.setdefault(operation.channel, []).append(operation)
        for channel, calls in own.items():
            handed.setdefault(channel, set()).add(tuple(calls))
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
