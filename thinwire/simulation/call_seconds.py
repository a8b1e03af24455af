"""How many seconds a call keeps the links and memory buses of a cluster busy, and its latency.

The bytes are those of `thinwire.traffic.wire_bytes`, except for two algorithms of the mean that the ledgers
do not have: see `_mean`. The headers of frames take their share of a link's rate. A load has one or two
*phases*. The second phase of a `push_pull` begins when the server has answered. On an emulated network, the
second phase of a mean is the one in which the members pass on what they have added.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, log2

import numpy as np
from numpy.typing import NDArray

from thinwire.base.placement import Cluster
from thinwire.config.clusters import ClusterDescription
from thinwire.simulation import gloo_ring
from thinwire.simulation.links import Busy, Floats, Integers, Links, Load, Phase
from thinwire.simulation.program import HandOver, kind_of_call
from thinwire.traffic.wire_bytes import payload_rate

# Collective calls between nodes that a group has under way at once: the threads of gloo. Later ones wait.
CALLS_AT_ONCE = 2


@dataclass(frozen=True)
class Shape:
    """What the load of a call depends on, for all members alike."""

    verb: str
    members: range | tuple[int, ...]  # the workers of the channel, in the order of their ranks
    partner: int  # the rank of a broadcast's source or of a server's worker
    ragged: bool
    push_bytes: int  # that each member hands over
    pull_bytes: int  # of a server's answer

    @property
    def ranks(self) -> Integers:
        """[members]: the workers."""
        if isinstance(self.members, range):
            return np.arange(self.members.start, self.members.stop, self.members.step)
        return np.asarray(self.members)


def shape_of(call: HandOver, members: range | tuple[int, ...]) -> Shape:
    """What the load of a call in a program depends on."""
    return Shape(call.verb, members, call.partner, call.ragged, call.push_bytes, call.pull_bytes)


class Loads:
    """The loads of calls on one cluster."""

    def __init__(
        self,
        described: ClusterDescription,
        cluster: Cluster,
        burst_bytes: int = 0,
        latency_seconds: Mapping[str, float] | None = None,
    ) -> None:
        """Prepare.

        Args:
            described: its links, buses and algorithms.
            cluster: its workers and nodes.
            burst_bytes: that a link passes on at once after a pause, as the token buckets of emulated links
                do. A link of a real cluster passes on none.
            latency_seconds: of calls between nodes, by their kind, where it is not that of the description.
        """
        self._described, self._cluster = described, cluster
        self._latency_seconds = latency_seconds or {}
        self._burst_bytes = burst_bytes
        # gloo passes sums on behind all that it has begun to send, so its means have two phases.
        self.means_in_two_phases = "mean" in self._latency_seconds
        per_node = cluster.workers_per_node
        shared = described.link.shared_by_workers
        burst_seconds = burst_bytes / described.link.rate_bytes_per_second
        # A link that has paused has a full token bucket; a bus has none.
        self._ahead_seconds = (burst_seconds, burst_seconds, 0.0)
        self.links = cluster.nodes if shared else cluster.workers
        self._link_of = np.arange(cluster.workers) // (per_node if shared else 1)
        self._node_of = np.arange(cluster.workers) // per_node
        self._known: dict[Shape, Load] = {}

    def free_links(self) -> Links:
        """All links and buses of the cluster."""
        return Links(self.links, self._cluster.nodes, self._ahead_seconds)

    def of(self, shape: Shape) -> Load:
        """The load of a call; calls of one shape share it."""
        load = self._known.get(shape)
        if load is None:
            load = self._known[shape] = self._made(shape)
        return load

    def of_message(self, sender: int, receiver: int, size: int) -> Load:
        """The load of so many bytes from one worker to another."""
        if sender == receiver:
            return Load((), 0, 0)
        link, described = self._described.link, self._described
        latency, none = described.call_latency_seconds, Busy.only()
        source, target = int(self._node_of[sender]), int(self._node_of[receiver])
        if source == target:
            bus = Busy.only((source, size / described.memory_bus_bytes_per_second))
            return Load((Phase((none, none, bus), latency, latency),), size, 0)
        latency += link.latency_seconds
        seconds = size / payload_rate(link.rate_bytes_per_second)
        out, into = ((int(self._link_of[worker]), seconds) for worker in (sender, receiver))
        ways = (Busy.only(out), Busy.only(into)) if link.full_duplex else (Busy.only(out, into),) * 2
        return Load((Phase((*ways, none), latency, latency),), size, size)

    def on(self, nodes: NDArray[np.bool_], load: Load) -> Load:
        """The part of a load on some nodes, which are True: [nodes]."""
        links = np.repeat(nodes, self.links // len(nodes))
        return replace(load, phases=tuple(phase.among(links, nodes) for phase in load.phases))

    def _made(self, shape: Shape) -> Load:
        if len(shape.members) == 1:
            return Load((), 0, 0)
        transfers = _TRANSFERS[shape.verb](self, shape)
        sent_bytes = round(sum(float(part.sum()) for sent, _, _ in transfers for part in sent))
        between_nodes = round(sum(float(between.sum()) for (between, _), _, _ in transfers))
        kind, share = kind_of_call(shape.verb, shape.ragged), 1.0
        if kind == "mean" and between_nodes and self.means_in_two_phases:
            transfers = [half for transfer in transfers for half in _halves(*transfer)]
            share = 0.5
        phases = tuple(self._phase(kind, *transfer, share) for transfer in transfers)
        return Load(phases, sent_bytes, between_nodes, kind in _COLLECTIVE and between_nodes > 0)

    def _phase(
        self, kind: str, sent: tuple[Floats, Floats], received: Floats, hops: float, share: float
    ) -> Phase:
        """Give a phase, from bytes of all workers.

        Args:
            kind: of the call.
            sent: that each worker sends to other nodes, and to its own node.
            received: that each worker receives from other nodes.
            hops: that follow one another until the last byte has arrived.
            share: of the latency of its kind.
        """
        between, inside = sent
        link, described = self._described.link, self._described
        rate = payload_rate(link.rate_bytes_per_second)
        out = np.bincount(self._link_of, between, self.links) / rate
        into = np.bincount(self._link_of, received, self.links) / rate
        if not link.full_duplex:
            out = into = out + into
        bus = np.bincount(self._node_of, inside, self._cluster.nodes) / described.memory_bus_bytes_per_second
        latency = least = described.call_latency_seconds
        if between.any():
            latency = self._latency_seconds.get(kind, latency)
            # Two members calibrate it. Among more, there are more hops; many bytes hide them, few do not.
            least = latency * hops / _HOPS_OF_TWO[kind] if kind in self._latency_seconds else latency
            latency *= share
            if kind == "gather" and hops == 1:  # between two members
                latency += self._late_seconds(between.max() / 2)
            if kind == "mean" and self.means_in_two_phases and link.latency_seconds:
                latency += self._ring_latency_seconds(float(between.max()), hops)
                least += self._ring_latency_seconds(0.0, hops)
            else:
                latency, least = (seconds + hops * link.latency_seconds for seconds in (latency, least))
        return Phase((Busy.of(out), Busy.of(into), Busy.of(bus)), latency, least)

    def _ring_latency_seconds(self, half_bytes: float, hops: float) -> float:
        """How long a phase of gloo's ring waits for the latency of links; see `gloo_ring`."""
        link = self._described.link
        rate = payload_rate(link.rate_bytes_per_second)
        members, burst_seconds = round(hops) + 1, self._ahead_seconds[0]
        return gloo_ring.latency_seconds(half_bytes, members, link.latency_seconds, rate, burst_seconds)

    def _late_seconds(self, half_bytes: float) -> float:
        """How much longer a gather between two members takes on an emulated network, if one of them is late.

        gloo sends a payload in two halves. Two members have one connection, so the late one can say that it
        is ready for the second half only behind all that it sends. A half within a burst takes no time.
        """
        if not 0 < self._burst_bytes < half_bytes:
            return 0.0
        return half_bytes / payload_rate(self._described.link.rate_bytes_per_second)

    def _zeros(self) -> Floats:
        return np.zeros(self._cluster.workers)

    def _ring(self, own: Integers, each_sends: Floats) -> tuple[tuple[Floats, Floats], Floats]:
        """Every member sends so many bytes to the next one."""
        following = np.roll(own, -1)
        away = self._node_of[own] != self._node_of[following]
        between, inside, received = self._zeros(), self._zeros(), self._zeros()
        between[own[away]] = each_sends[away]
        inside[own[~away]] = each_sends[~away]
        received[following[away]] = each_sends[away]
        return (between, inside), received

    def _star(self, shape: Shape, each: int) -> tuple[tuple[Floats, Floats], Floats]:
        """Every member but one sends so many bytes to that one."""
        own = shape.ranks
        server = own[shape.partner]
        others = own[own != server]
        away = self._node_of[others] != self._node_of[server]
        between, inside, received = self._zeros(), self._zeros(), self._zeros()
        between[others[away]] = each
        inside[others[~away]] = each
        received[server] = each * away.sum()
        return (between, inside), received


# Ragged gathers and servers use messages, of which any number is under way.
_COLLECTIVE = ("mean", "gather", "broadcast")
_HOPS_OF_TWO = {"mean": 2, "gather": 1, "ragged gather": 1, "broadcast": 1, "push_pull": 1}
Transfers = list[tuple[tuple[Floats, Floats], Floats, float]]


def _mean(loads: Loads, shape: Shape) -> Transfers:
    """An all-reduce.

    - ring: 2 (n-1) steps. Each member sends 2 (n-1)/n of the bytes to the next one.
    - tree: recursive halving and doubling. It has as many bytes in 2 log2(n) steps.
    - hierarchical: a ring on each node, in its memory. Between the nodes, each place on a node has a ring of
      its own, with its part of the bytes.
    """
    size, count = shape.push_bytes, len(shape.members)
    nodes = len(np.unique(loads._node_of[shape.ranks]))
    algorithm = loads._described.algorithms.all_reduce
    if algorithm == "hierarchical" and 1 < nodes < count:
        own, per_node = shape.ranks, count // nodes
        between, inside, received = loads._zeros(), loads._zeros(), loads._zeros()
        between[own] = received[own] = 2 * (nodes - 1) / nodes * size / per_node
        inside[own] = 2 * (per_node - 1) / per_node * size
        return [((between, inside), received, 2.0 * (nodes - 1))]
    sent, received = loads._ring(shape.ranks, np.full(count, 2 * (count - 1) / count * size))
    hops = 2 * ceil(log2(count)) if algorithm == "tree" else 2 * (count - 1)
    return [(sent, received, float(hops))]


def _halves(sent: tuple[Floats, Floats], received: Floats, hops: float) -> Transfers:
    """A mean as two transfers: parts are added, then the sums are passed on."""
    between, inside = sent
    return [((between / 2, inside / 2), received / 2, hops / 2)] * 2


def _gather(loads: Loads, shape: Shape) -> Transfers:
    """Equal payloads pass round a ring; ragged ones go from every member to every other."""
    count, each = len(shape.members), shape.push_bytes
    if not shape.ragged:
        sent, received = loads._ring(shape.ranks, np.full(count, float((count - 1) * each)))
        return [(sent, received, float(count - 1))]
    own = shape.ranks
    on_node = np.bincount(loads._node_of[own], minlength=loads._cluster.nodes)[loads._node_of[own]]
    between, inside, received = loads._zeros(), loads._zeros(), loads._zeros()
    between[own] = received[own] = (count - on_node) * float(each)
    inside[own] = (on_node - 1) * float(each)
    return [((between, inside), received, 1.0)]


def _broadcast(loads: Loads, shape: Shape) -> Transfers:
    """A chain from the source, which enters each other node once; all its parts are under way at once."""
    own = np.roll(shape.ranks, -shape.partner)
    nodes = loads._node_of[own]
    order = np.argsort((nodes - nodes[0]) % (nodes.max() + 1), kind="stable")
    chain, each = own[order], float(shape.push_bytes)
    senders, receivers = chain[:-1], chain[1:]
    away = loads._node_of[senders] != loads._node_of[receivers]
    between, inside, received = loads._zeros(), loads._zeros(), loads._zeros()
    between[senders[away]] = each
    inside[senders[~away]] = each
    received[receivers[away]] = each
    return [((between, inside), received, float(len(chain) - 1))]


def _push_pull(loads: Loads, shape: Shape) -> Transfers:
    """All members push to the server's worker; its answer goes to all of them."""
    pushes, pushed = loads._star(shape, shape.push_bytes)
    (away, near), _ = loads._star(shape, shape.pull_bytes)
    # The answer takes the same ways back.
    server = shape.ranks[shape.partner]
    between, inside = loads._zeros(), loads._zeros()
    between[server], inside[server] = away.sum(), near.sum()
    return [(pushes, pushed, 1.0), ((between, inside), away, 1.0)]


_TRANSFERS = {"mean": _mean, "gather": _gather, "broadcast": _broadcast, "push_pull": _push_pull}
