"""Measures the links of an emulated cluster, in a few seconds before a run.

The first workers of all nodes form a ring. In turn, each measures the way to its successor.
"""

import time
from collections.abc import Callable
from statistics import median

import torch
import torch.distributed as dist
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from thinwire.base.placement import Cluster
from thinwire.config.clusters import Link
from thinwire.traffic.wire_bytes import payload_rate
from thinwire.transport.interface import Transport
from thinwire.transport.rendezvous import open_group, translated_errors

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
                trip = _seconds(_SMALL_TIMES, lambda to=there: _send(small, to, group))  # type: ignore[misc]
                whole = _seconds(_LARGE_TIMES, lambda to=there: _send(large, to, group))  # type: ignore[misc]
                ways.append((size / (whole - 2 * link.latency_seconds), trip))
            elif rank == there:
                for buffer, times in ((small, _SMALL_TIMES), (large, _LARGE_TIMES)):
                    _seconds(times, lambda b=buffer, source=here: _answer(b, source, group))  # type: ignore[misc]
            dist.barrier(group)
        sums = [(n, _all_reduce_seconds(n, group)) for n in (min(_SMALL_BYTES, size), size)]
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


def _all_reduce_seconds(size: int, group: dist.ProcessGroup) -> float:
    tensor = torch.zeros(size // 4)
    return _seconds(_LARGE_TIMES, lambda: dist.all_reduce(tensor, group=group))


def _seconds(times: int, do: Callable[[], object]) -> float:
    """The median of the seconds; one more call before them warms up."""
    taken = []
    for _ in range(times + 1):
        began = time.perf_counter()
        do()
        taken.append(time.perf_counter() - began)
    return median(taken[1:])
