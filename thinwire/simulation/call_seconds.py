"""How long calls keep the links between nodes and the memory buses inside them busy, and until when.

The bytes are those of `thinwire.traffic.wire_bytes`, except for two algorithms of the mean that the ledgers
do not have: see `_mean`. The headers of frames take their share of a link's rate. A load has one or two
*phases*. The second phase of a `push_pull` begins when the server has answered.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, log2
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinwire.base.placement import Cluster
from thinwire.config.hardware import ClusterDescription
from thinwire.simulation.program import Floats, HandOver, kind_of_call
from thinwire.traffic.wire_bytes import payload_rate

Integers = NDArray[np.intp]

# So few links are faster one by one than as an array.
_FEW = 16
# Collective calls between nodes that a group has under way at once: the threads of gloo. Later ones wait.
CALLS_AT_ONCE = 2
# Ragged gathers and servers use messages, of which any number is under way.
_COLLECTIVE = ("mean", "gather", "broadcast")


@dataclass(frozen=True, eq=False)
class Busy:
    """The links of one direction, or the buses, that transfers keep busy."""

    places: Integers  # [busy]: their numbers
    seconds: Floats  # [busy]: for how long

    @classmethod
    def of(cls, seconds: Floats) -> "Busy":
        """From the seconds of all links or buses; most of them may be 0."""
        places = np.flatnonzero(seconds)
        return cls(places, seconds[places])

    @classmethod
    def only(cls, *busy: tuple[int, float]) -> "Busy":
        """From the numbers and seconds of the few that are busy."""
        return cls(np.array([place for place, _ in busy], np.intp), np.array([s for _, s in busy], float))

    def among(self, kept: NDArray[np.bool_]) -> "Busy":
        """Without the links or buses that are not kept."""
        own = kept[self.places]
        return self if own.all() else Busy(self.places[own], self.seconds[own])

    @cached_property
    def few(self) -> list[tuple[int, float]] | None:
        """The same one by one; None if they are many."""
        return None if len(self.places) >= _FEW else [*zip(self.places.tolist(), self.seconds.tolist())]


@dataclass(frozen=True, eq=False)
class Phase:
    """Transfers that go on at the same time."""

    busy: tuple[Busy, Busy, Busy]  # sending links, receiving links, buses
    latency_seconds: float  # until the last byte has arrived, beyond the above
    least_seconds: float = 0.0  # from the begin to the end, however few the bytes

    def among(self, links: NDArray[np.bool_], nodes: NDArray[np.bool_]) -> "Phase":
        """The part on links and on buses of nodes that are True: [links] in each direction, [nodes]."""
        out, into, buses = self.busy
        return replace(self, busy=(out.among(links), into.among(links), buses.among(nodes)))


@dataclass(frozen=True, eq=False)
class Load:
    """What one call puts on the cluster."""

    phases: tuple[Phase, ...]
    sent_bytes: int  # by all members together, on links and buses
    between_nodes_bytes: int  # of these, on links
    queued: bool = False  # does it wait until fewer than `CALLS_AT_ONCE` calls of its group are under way?


NO_LOAD = Load((), 0, 0)


class Links:
    """When each sending link, receiving link and bus becomes free."""

    def __init__(self, links: int, nodes: int, ahead_seconds: float = 0.0) -> None:
        """Begin with all of them free.

        Args:
            links: their number, in each direction.
            nodes: as many buses there are.
            ahead_seconds: by how much a link is done earlier if it was free.
        """
        self._ahead = (ahead_seconds, ahead_seconds, 0.0)
        self._free = tuple(np.full(size, -ahead) for size, ahead in zip((links, links, nodes), self._ahead))

    def carry(self, phase: Phase, begin: float) -> float:
        """Keep busy what a phase needs, from its begin on or from when it is free; returns its end."""
        last = begin
        for free, busy, ahead in zip(self._free, phase.busy, self._ahead):
            if busy.few is None:
                ends = np.maximum(free[busy.places], begin - ahead) + busy.seconds
                free[busy.places] = ends
                last = max(last, float(ends.max()))
            else:
                for place, seconds in busy.few:
                    end = free[place] = max(free.item(place), begin - ahead) + seconds
                    last = max(last, end)
        return max(last + phase.latency_seconds, begin + phase.least_seconds)


class Transfer(NamedTuple):
    """What all workers transfer at the same time, in bytes: [workers]."""

    between: Floats  # sent to other nodes
    inside: Floats  # sent to the own node
    received: Floats  # from other nodes
    hops: float  # that follow one another until the last byte has arrived


class Loads:
    """The loads of calls on one cluster."""

    def __init__(self, described: ClusterDescription, cluster: Cluster) -> None:
        self.described, self.cluster = described, cluster
        per_link = cluster.workers_per_node if described.link.shared_by_workers else 1
        self.links = cluster.workers // per_link
        self._link_of = np.arange(cluster.workers) // per_link
        self._node_of = np.arange(cluster.workers) // cluster.workers_per_node
        self._known: dict[object, Load] = {}

    def free_links(self) -> Links:
        """All links and buses of the cluster."""
        return Links(self.links, self.cluster.nodes)

    def of(self, call: HandOver, members: Sequence[int]) -> Load:
        """The load of a call of these workers, in the order of their ranks; calls that are alike share it."""
        key = (call.verb, call.partner, call.ragged, call.push_bytes, call.pull_bytes, members)
        if key not in self._known:
            self._known[key] = self._made(call, np.array(members))
        return self._known[key]

    def of_message(self, sender: int, receiver: int, size: int) -> Load:
        """The load of so many bytes from one worker to another."""
        if sender == receiver:
            return NO_LOAD
        link, described = self.described.link, self.described
        latency, none = described.call_latency_seconds, Busy.only()
        source, target = int(self._node_of[sender]), int(self._node_of[receiver])
        if source == target:
            bus = Busy.only((source, size / described.memory_bus_bytes_per_second))
            return Load((Phase((none, none, bus), latency),), size, 0)
        seconds = size / payload_rate(link.rate_bytes_per_second)
        out, into = ((int(self._link_of[worker]), seconds) for worker in (sender, receiver))
        ways = (Busy.only(out), Busy.only(into)) if link.full_duplex else (Busy.only(out, into),) * 2
        return Load((Phase((*ways, none), latency + link.latency_seconds),), size, size)

    def on(self, nodes: NDArray[np.bool_], load: Load) -> Load:
        """The part of a load on some nodes, which are True: [nodes]."""
        links = np.repeat(nodes, self.links // len(nodes))
        return replace(load, phases=tuple(phase.among(links, nodes) for phase in load.phases))

    def _made(self, call: HandOver, ranks: Integers) -> Load:
        if len(ranks) == 1:
            return NO_LOAD
        transfers = self._transfers(call, ranks)
        sent_bytes = round(
            sum(float(part.sum()) for each in transfers for part in (each.between, each.inside))
        )
        between_nodes = round(sum(float(each.between.sum()) for each in transfers))
        kind = kind_of_call(call.verb, call.ragged)
        queued = kind in _COLLECTIVE and between_nodes > 0
        return Load(self.phases(kind, transfers), sent_bytes, between_nodes, queued)

    def phases(self, kind: str, transfers: Sequence[Transfer]) -> tuple[Phase, ...]:
        """The phases of a call of a kind with these transfers."""
        link, software = self.described.link.latency_seconds, self.described.call_latency_seconds
        return tuple(
            self.phase(each, software + each.hops * link if each.between.any() else software)
            for each in transfers
        )

    def phase(self, transfer: Transfer, latency_seconds: float, least_seconds: float = 0.0) -> Phase:
        """The phase of a transfer."""
        link, nodes = self.described.link, self.cluster.nodes
        rate = payload_rate(link.rate_bytes_per_second)
        out = np.bincount(self._link_of, transfer.between, self.links) / rate
        into = np.bincount(self._link_of, transfer.received, self.links) / rate
        if not link.full_duplex:
            out = into = out + into
        bus = np.bincount(self._node_of, transfer.inside, nodes) / self.described.memory_bus_bytes_per_second
        return Phase((Busy.of(out), Busy.of(into), Busy.of(bus)), latency_seconds, least_seconds)

    def _transfers(self, call: HandOver, ranks: Integers) -> list[Transfer]:
        if call.verb == "mean":
            return [self._mean(call.push_bytes, ranks)]
        if call.verb == "gather":
            return [self._gather(call, ranks)]
        if call.verb == "broadcast":
            # A chain from the source, which enters each other node once; all its parts are under way at once.
            own = np.roll(ranks, -call.partner)
            nodes = self._node_of[own]
            chain = own[np.argsort((nodes - nodes[0]) % (nodes.max() + 1), kind="stable")]
            return [self._one_way(chain[:-1], chain[1:], call.push_bytes, len(chain) - 1)]
        # All members push to the server's worker; its answer goes to all of them.
        others = np.delete(ranks, call.partner)
        server = np.full_like(others, ranks[call.partner])
        pushes = self._one_way(others, server, call.push_bytes, 1)
        return [pushes, self._one_way(server, others, call.pull_bytes, 1)]

    def _mean(self, size: int, ranks: Integers) -> Transfer:
        """An all-reduce.

        - ring: 2 (n-1) steps. Each member sends 2 (n-1)/n of the bytes to the next one.
        - tree: recursive halving and doubling. It has as many bytes in 2 log2(n) steps.
        - hierarchical: a ring on each node, in its memory. Between the nodes, each place on a node has a tree
          of its own, with its part of the bytes. NCCL's double binary trees, too, send about as many bytes as
          a ring in a number of steps that grows with the logarithm of the nodes.
        """
        count, nodes = len(ranks), len(np.unique(self._node_of[ranks]))
        algorithm = self.described.algorithms.all_reduce
        if algorithm == "hierarchical" and nodes > 1:
            per_node = count // nodes
            between = self._of_workers(ranks, 2 * (nodes - 1) / nodes * size / per_node)
            inside = self._of_workers(ranks, 2 * (per_node - 1) / per_node * size)
            return Transfer(between, inside, between, 2 * ceil(log2(nodes)))
        hops = 2 * ceil(log2(count)) if algorithm == "tree" else 2 * (count - 1)
        return self._one_way(ranks, np.roll(ranks, -1), 2 * (count - 1) / count * size, hops)

    def _gather(self, call: HandOver, ranks: Integers) -> Transfer:
        """Equal payloads pass round a ring; ragged ones go from every member to every other."""
        others = len(ranks) - 1
        if not call.ragged:
            return self._one_way(ranks, np.roll(ranks, -1), others * call.push_bytes, others)
        nodes = self._node_of[ranks]
        on_node = np.bincount(nodes)[nodes]
        between = self._of_workers(ranks, (len(ranks) - on_node) * float(call.push_bytes))
        inside = self._of_workers(ranks, (on_node - 1) * float(call.push_bytes))
        return Transfer(between, inside, between, 1)

    def _one_way(self, senders: Integers, receivers: Integers, each_sends: float, hops: float) -> Transfer:
        """Each of these senders sends so many bytes to the receiver at the same place."""
        away = self._node_of[senders] != self._node_of[receivers]
        ends = (senders[away], senders[~away], receivers[away])
        between, inside, received = (self._of_workers(ranks, each_sends) for ranks in ends)
        return Transfer(between, inside, received, hops)

    def _of_workers(self, ranks: Integers, each_sends: NDArray[np.floating] | float) -> Floats:
        """[workers]: the sums of what is sent or received at these ranks, which may repeat."""
        sums = np.zeros(self.cluster.workers)
        np.add.at(sums, ranks, each_sends)
        return sums
