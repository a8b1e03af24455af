"""How many seconds a call keeps the links and memory buses of a cluster busy, and its latency.

The bytes are those of `thinwire.traffic.wire_bytes`, except for two algorithms of the mean that the ledgers
do not have: see `_mean`. The headers of frames take their share of a link's rate. A load has one or two
*phases*. The second phase of a `push_pull` begins when the server has answered. On an emulated network, the
second phase of a mean is the one in which the members pass on what they have added.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil, log2
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinwire.base.placement import Cluster
from thinwire.config.hardware import ClusterDescription
from thinwire.simulation.links import (
    NO_LOAD,
    Busy,
    Floats,
    Integers,
    Links,
    Load,
    Phase,
    ring_latency_seconds,
)
from thinwire.simulation.program import HandOver, kind_of_call
from thinwire.traffic.wire_bytes import payload_rate

# Collective calls between nodes that a group has under way at once: the threads of gloo. Later ones wait.
CALLS_AT_ONCE = 2
# Ragged gathers and servers use messages, of which any number is under way.
_COLLECTIVE = ("mean", "gather", "broadcast")
_HOPS_OF_TWO = {"mean": 2, "gather": 1, "ragged gather": 1, "broadcast": 1, "push_pull": 1}


class Transfer(NamedTuple):
    """What all workers transfer at the same time, in bytes: [workers]."""

    between: Floats  # sent to other nodes
    inside: Floats  # sent to the own node
    received: Floats  # from other nodes
    hops: float  # that follow one another until the last byte has arrived


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
        self._known: dict[object, Load] = {}

    def free_links(self) -> Links:
        """All links and buses of the cluster."""
        return Links(self.links, self._cluster.nodes, self._ahead_seconds)

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

    def _made(self, call: HandOver, ranks: Integers) -> Load:
        if len(ranks) == 1:
            return NO_LOAD
        transfers = self._transfers(call, ranks)
        sent_bytes = round(
            sum(float(part.sum()) for each in transfers for part in (each.between, each.inside))
        )
        between_nodes = round(sum(float(each.between.sum()) for each in transfers))
        kind, share = kind_of_call(call.verb, call.ragged), 1.0
        if kind == "mean" and between_nodes and self.means_in_two_phases:
            # Parts are added, then the sums are passed on.
            between, inside, received, hops = transfers[0]
            transfers, share = [Transfer(between / 2, inside / 2, received / 2, hops / 2)] * 2, 0.5
        phases = tuple(self._phase(kind, transfer, share) for transfer in transfers)
        return Load(phases, sent_bytes, between_nodes, kind in _COLLECTIVE and between_nodes > 0)

    def _phase(self, kind: str, transfer: Transfer, share: float) -> Phase:
        """The phase of a transfer of a call, which has this share of the latency of its kind."""
        between, inside, received, hops = transfer
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
        """How long a phase of gloo's ring waits for the latency of links."""
        link = self._described.link
        rate = payload_rate(link.rate_bytes_per_second)
        members, burst_seconds = round(hops) + 1, self._ahead_seconds[0]
        return ring_latency_seconds(half_bytes, members, link.latency_seconds, rate, burst_seconds)

    def _late_seconds(self, half_bytes: float) -> float:
        """How much longer a gather between two members takes on an emulated network, if one of them is late.

        gloo sends a payload in two halves. Two members have one connection, so the late one can say that it
        is ready for the second half only behind all that it sends. A half within a burst takes no time.
        """
        if not 0 < self._burst_bytes < half_bytes:
            return 0.0
        return half_bytes / payload_rate(self._described.link.rate_bytes_per_second)

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
        algorithm = self._described.algorithms.all_reduce
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

    def _of_workers(self, ranks: Integers, each_sends: NDArray[Any] | float) -> Floats:
        """[workers]: the sums of what is sent or received at these ranks, which may repeat."""
        sums = np.zeros(self._cluster.workers)
        np.add.at(sums, ranks, each_sends)
        return sums
