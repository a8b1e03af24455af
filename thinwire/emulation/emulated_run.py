"""A run on an emulated network: what its links can do, what it sends and computes, and are its times valid?

The links are measured in a few seconds before the run. The first workers of all nodes form a ring: in turn,
each measures the way to its successor.
"""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from statistics import median
from typing import NamedTuple

import torch
import torch.distributed as dist
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from thinwire.base.placement import Cluster
from thinwire.config.cell import Cell
from thinwire.config.hardware import Link
from thinwire.emulation.network import INTERFACE
from thinwire.traffic.wire_bytes import Ledger, payload_rate
from thinwire.transport.interface import Transport
from thinwire.transport.processes import open_group
from thinwire.transport.rendezvous import translated_errors

# A link that deviates further from its configured rate or latency gives no times.
TOLERANCE = 0.05
# What software may add to a round trip over a link with a latency.
_SOFTWARE_SECONDS = 1e-3
# A large message takes about this long on its link: much longer than the latency, too short to delay a run.
_MESSAGE_SECONDS, _MESSAGE_BYTES = 0.1, (2**18, 2**26)
_SMALL_BYTES = 2**16
_LARGE_TIMES, _SMALL_TIMES = 3, 20


class AllReduce(BaseModel):
    """A ring all-reduce of gloo over all workers."""

    model_config = ConfigDict(frozen=True)

    size_bytes: int  # of the tensor
    seconds: float  # of the slowest worker, median


class Calibration(BaseModel):
    """What was measured. Lists have an entry for each node: the way from it to the next node."""

    model_config = ConfigDict(frozen=True)

    message_bytes: int
    # One way, of messages of so many bytes, until their answer is back; without the latency of both ways.
    payload_bytes_per_second: list[float]
    round_trip_seconds: list[float]  # of messages of four bytes
    all_reduce: list[AllReduce]

    def off(self, link: Link) -> str | None:
        """Which links deviate from this description by more than `TOLERANCE`, in a clause; None: none."""
        configured, least = payload_rate(link.rate_bytes_per_second), 2 * link.latency_seconds
        for node, (rate, trip) in enumerate(zip(self.payload_bytes_per_second, self.round_trip_seconds)):
            if abs(rate / configured - 1) > TOLERANCE:
                return (
                    f"the emulated link of node {node} carried {rate / 1e6:.2f} MB of payload in a "
                    f"second, instead of {configured / 1e6:.2f}"
                )
            if least and not least <= trip <= (1 + TOLERANCE) * least + _SOFTWARE_SECONDS:
                return (
                    f"a round trip on the emulated link of node {node} took {trip * 1e3:.1f} ms, "
                    f"instead of {least * 1e3:.1f}"
                )
        return None


def calibrate(cluster: Cluster, transport: Transport, link: Link) -> Calibration:
    """Measure the links. All workers must call this at the same time.

    Raises:
        ConnectionLost: another process has ended.
    """
    rank, first = transport.ranks[0], cluster.workers_per_node
    fewest, most = _MESSAGE_BYTES
    size = int(min(max(link.rate_bytes_per_second * _MESSAGE_SECONDS, fewest), most)) // 4 * 4
    small, large = torch.zeros(1), torch.zeros(size // 4)
    group = open_group(None, "gloo")
    ways: list[tuple[float, float]] = []
    with translated_errors():
        for node in range(cluster.nodes):
            here, there = node * first, (node + 1) % cluster.nodes * first
            if rank == here:
                trip = _seconds(_SMALL_TIMES, partial(_send, small, there, group))
                whole = _seconds(_LARGE_TIMES, partial(_send, large, there, group))
                ways.append((size / (whole - 2 * link.latency_seconds), trip))
            elif rank == there:
                _seconds(_SMALL_TIMES, partial(_answer, small, here, group))
                _seconds(_LARGE_TIMES, partial(_answer, large, here, group))
            dist.barrier(group)
        sums = []
        for n in (min(_SMALL_BYTES, size), size):
            reduce = partial(dist.all_reduce, torch.zeros(n // 4), group=group)
            sums.append((n, _seconds(_LARGE_TIMES, reduce)))
        dist.destroy_process_group(group)
    measured = [way for of_rank in transport.share([ways]) for way in of_rank]
    slowest = [max(each) for each in zip(*transport.share([[seconds for _, seconds in sums]]))]
    return Calibration(
        message_bytes=size,
        payload_bytes_per_second=[rate for rate, _ in measured],
        round_trip_seconds=[trip for _, trip in measured],
        all_reduce=[AllReduce(size_bytes=n, seconds=s) for (n, _), s in zip(sums, slowest)],
    )


def _send(tensor: Tensor, to: int, group: dist.ProcessGroup) -> None:
    """Send a tensor, and wait for an answer of four bytes."""
    dist.send(tensor, to, group)
    dist.recv(torch.zeros(1), to, group)


def _answer(tensor: Tensor, source: int, group: dist.ProcessGroup) -> None:
    dist.recv(tensor, source, group)
    dist.send(torch.zeros(1), source, group)


def _seconds(times: int, do: Callable[[], object]) -> float:
    """The median of the seconds; one more call before them warms up."""
    taken = []
    for _ in range(times + 1):
        began = time.perf_counter()
        do()
        taken.append(time.perf_counter() - began)
    return median(taken[1:])


class Training(BaseModel):
    """What was counted in all intervals of training of one attempt. Lists have an entry for each node."""

    model_config = ConfigDict(frozen=True)

    interface_bytes: list[float]  # sent on the node's link, headers included
    ledger_bytes: list[float]  # sent to other nodes, as the ledgers of its workers have it
    seconds: float
    processor_seconds: float  # of all workers together, on all cores


class _Reading(NamedTuple):
    interface_bytes: float
    ledger_bytes: float
    processor_seconds: float
    seconds: float


class TrainingMeter:
    """Counts what one worker's training sends and computes. All workers use theirs at the same time.

    An interval of training, without evaluations, begins and ends when no message is on its way between
    workers. So the bytes that the links have carried are those of the same calls as the bytes in the ledgers.
    """

    def __init__(self, cluster: Cluster, transport: Transport, ledgers: Sequence[Ledger]) -> None:
        self._cluster, self._transport, self._ledgers = cluster, transport, ledgers
        # One worker of each node reads the counter of its link.
        self._reads = transport.ranks[0] % cluster.workers_per_node == 0
        self._sum = _Reading(0.0, 0.0, 0.0, 0.0)

    def start(self) -> None:
        """Begin an interval of training."""
        self._transport.share([None])
        self._begun = self._read()
        self._transport.share([None])  # otherwise, others would wait in their next step for one that reads

    def stop(self) -> None:
        """End it: all workers have all that was sent to them."""
        self._transport.share([None])
        fields = zip(self._sum, self._read(), self._begun)
        self._sum = _Reading._make(total + end - begin for total, end, begin in fields)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave out what is done inside."""
        self.stop()
        yield
        self.start()

    def total(self) -> Training:
        """What all workers have counted."""
        ranks = [_Reading._make(counted) for counted in self._transport.share([list(self._sum)])]
        first = self._cluster.workers_per_node
        nodes = [ranks[begin : begin + first] for begin in range(0, len(ranks), first)]
        return Training(
            interface_bytes=[sum(rank.interface_bytes for rank in node) for node in nodes],
            ledger_bytes=[sum(rank.ledger_bytes for rank in node) for node in nodes],
            seconds=max(rank.seconds for rank in ranks),
            processor_seconds=sum(rank.processor_seconds for rank in ranks),
        )

    def _read(self) -> _Reading:
        return _Reading(
            bytes_sent() if self._reads else 0,
            sum(ledger.total().between_nodes for ledger in self._ledgers),
            time.process_time(),
            time.perf_counter(),
        )


def bytes_sent() -> int:
    """Bytes that the node of this process has sent so far, with the headers of all frames.

    They are read from tbf, which limits the link. The counter of the interface is not used: where the kernel
    passes on several frames as one, it counts their headers once.
    """
    command = ["tc", "-s", "-j", "qdisc", "show", "dev", INTERFACE, "root"]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(next(limit["bytes"] for limit in json.loads(answer.stdout) if limit["kind"] == "tbf"))


# A run whose workers share cores has times only if its training could be shorter by at most this share.
MOST_CROWDING = 0.05


class EmulatedRun:
    """Of one worker. All workers make and use theirs at the same time."""

    def __init__(self, cell: Cell, transport: Transport) -> None:
        """Measure the links, before anything else is sent over them."""
        assert cell.cluster is not None
        self._cluster, self._transport = Cluster(cell.workers, cell.nodes), transport
        self._link = cell.cluster.link
        self._calibration = calibrate(self._cluster, transport, self._link)
        self._cores = len(os.sched_getaffinity(0))
        self._training: Training | None = None  # until it has ended

    @contextmanager
    def counting(self, ledgers: Sequence[Ledger]) -> Iterator[Callable[[], AbstractContextManager[None]]]:
        """Count what is sent inside this context; gives another context for what is not training.

        Args:
            ledgers: of the workers in this process.
        """
        meter = TrainingMeter(self._cluster, self._transport, ledgers)
        meter.start()
        yield meter.paused
        meter.stop()
        self._training = meter.total()

    @property
    def no_time_because(self) -> str | None:
        """Why the times of the run say nothing about its method, in one clause; None if they are valid."""
        if reason := self._calibration.off(self._link):
            return reason
        shorter, ranks = self._shorter_by_at_most(), self._cluster.workers
        if shorter is not None and shorter > MOST_CROWDING:
            return (
                f"{ranks} workers shared {self._cores} core{'s' * (self._cores > 1)}, and without that "
                f"training could have been up to {shorter * 100:.1f} % shorter"
            )
        return None

    @property
    def provenance(self) -> dict[str, object]:
        """What was measured, for the record."""
        return {
            "calibration": self._calibration.model_dump(),
            "training": None if self._training is None else self._training.model_dump(),
            "crowding": {
                "ranks_per_core": self._cluster.workers / self._cores,
                "shorter_by_at_most": self._shorter_by_at_most(),
            },
        }

    def _shorter_by_at_most(self) -> float | None:
        """The largest share of its time by which training could be shorter on a core for each worker.

        Time in which all cores are busy would shrink to cores / workers of itself if each worker had a core.
        """
        if self._training is None:
            return None
        busy = self._training.processor_seconds / (self._cores * self._training.seconds)
        workers = self._cluster.workers
        # The process that delays what links carry counts as one more worker.
        processes = workers + bool(self._link.latency_seconds)
        return busy * (processes / workers) * max(0.0, 1 - self._cores / processes)
