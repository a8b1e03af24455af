"""The workers that make a call together, and the nodes that stand for others that behave like them.

In a large cluster, most nodes do the same at the same time. Their workers have the same programs, and each
call keeps their links busy for as long. Then one of them is simulated, and stands for the others.
"""

from collections.abc import Sequence

import numpy as np

from thinwire.base.placement import Cluster
from thinwire.simulation.call_seconds import Loads, shape_of
from thinwire.simulation.links import Floats, Integers
from thinwire.simulation.operations import MESSAGES
from thinwire.simulation.program import HandOver, Hold, Program


class Groups:
    """The groups of workers on each channel. They are ranges, so that a large cluster has few numbers."""

    def __init__(self, cluster: Cluster) -> None:
        per_node = cluster.workers_per_node
        world = [range(cluster.workers)]
        self._of_channel = {
            "world": world,
            "unmetered": world,
            "node": [range(first, first + per_node) for first in range(0, cluster.workers, per_node)],
            "across": [range(place, cluster.workers, per_node) for place in range(per_node)],
        }
        self._per_node = per_node

    def on(self, channel: str) -> list[range]:
        """All groups of a channel: of each node, of each place on the nodes, or all workers."""
        return self._of_channel[channel]

    def of(self, worker: int, channel: str) -> range:
        """The members of a worker's group, in the order of their ranks."""
        groups = self._of_channel[channel]
        if len(groups) == 1:
            return groups[0]
        node, place = divmod(worker, self._per_node)
        return groups[node if channel == "node" else place]


def standing_for(programs: Sequence[Program], cluster: Cluster, loads: Loads, pace: Floats) -> Integers:
    """For each node the first one that behaves like it.

    The first node stands only for itself: among calls that begin at the same moment, its own come first.

    Args:
        programs: of all workers; workers of one role share a program.
        cluster: which workers share a node.
        loads: what calls put on the links.
        pace: [steps, workers]: a factor of the computation's seconds.

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
        groups = Groups(cluster)
        handed = {op: None for program in kinds.values() for step in program for op in step}
        for call in handed:
            if isinstance(call, HandOver) and call.channel != "node":
                for members in groups.on(call.channel):
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
    for phase in loads.of(shape_of(call, members)).phases:
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
