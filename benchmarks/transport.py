"""What the mean of a node's workers costs in shared memory, and what it costs over gloo on loopback.

    python benchmarks/transport.py [--record]

Four ranks on one host average tensors of 1 and 10 million float32, in ways that alternate in one run:
- `run.node.mean` of four workers on one node, *in place*: the tensor lies in shared memory, as gradients do;
- the same *in turn*: the tensor lies elsewhere;
- torch.distributed's `all_reduce` over gloo;
- `run.world.mean` of four workers on four nodes, which is that all-reduce with what the engine adds;
- a plain copy of the tensor by every rank, which tells how fast the memory is.

A repetition is several calls in a row, and takes as long as its slowest rank. The figures are medians, for
one call.

A *pass* reads or writes all numbers of one rank once. By arithmetic, in place takes 8 passes: each rank reads
and writes a quarter of the numbers of all four. In turn takes 13: all ranks read their own numbers (4), write
one sum (1), read it (4) and write their results (4). This counts what leaves the cache. The passes that were
measured are the seconds of a call times the passes per second of the copy. So machines can be compared.

Targets: in place at least 3 times, and in turn at least 2 times as fast as torch's all-reduce over gloo, at
both sizes.
"""

import argparse
import sys
import time
from collections.abc import Callable
from statistics import median

import ranks
import record
import torch
import torch.distributed as dist
from torch import Tensor

from thinwire.api.channel import Channel
from thinwire.base.placement import Cluster
from thinwire.traffic.wire_bytes import Ledger
from thinwire.transport.processes import Processes

RANKS = 4
SIZES = (1_000_000, 10_000_000)
NUMBERS = 30_000_000  # in all calls of one repetition: 30 calls with 1 million, or 3 with 10 million
REPETITIONS = 9
TARGETS = {"in place": 3.0, "in turn": 2.0}
# Of numbers that leave the cache, by arithmetic.
PASSES = {"in place": 2 * RANKS, "in turn": 3 * RANKS + 1}


def channel(name: str, transport: Processes, cluster: Cluster) -> Channel:
    """This rank's end of one of the engine's channels."""
    rank = dist.get_rank()
    members = cluster.groups(rank)[name]
    nodes = tuple(cluster.node_of(member) for member in members)
    return Channel(name, members, nodes, rank, transport, Ledger())


def contribution(rank: int, numel: int) -> Tensor:
    return torch.randn(numel, generator=torch.Generator().manual_seed(rank))


def seconds(numel: int) -> dict[str, float]:
    """Median seconds of one call in each of the ways, on the slowest rank."""
    host, network = Cluster(RANKS, 1), Cluster(RANKS, RANKS)
    transports = [Processes(cluster, torch.device("cpu")) for cluster in (host, network)]
    node = channel("node", transports[0], host)
    world = channel("world", transports[1], network)
    own, tensor = contribution(dist.get_rank(), numel), torch.empty(numel)
    (shared,) = transports[0].shared_like([tensor]) or ()
    actions: dict[str, Callable[[], object]] = {
        "in place": lambda: node.mean([shared]).wait(),
        "in turn": lambda: node.mean([tensor]).wait(),
        "all_reduce": lambda: dist.all_reduce(tensor),
        "world.mean": lambda: world.mean([tensor]).wait(),
        "copy": lambda: shared.copy_(tensor),
    }
    times: dict[str, list[float]] = {name: [] for name in actions}
    calls = NUMBERS // numel
    for repetition in range(REPETITIONS + 1):
        for name, action in actions.items():
            tensor.copy_(own)
            shared.copy_(own)
            dist.barrier()
            began = time.perf_counter()
            for _ in range(calls):
                action()
            took = ranks.slowest(time.perf_counter() - began) / calls
            if repetition:  # the first one warms up
                times[name].append(took)
    for given in (tensor, shared):
        given.copy_(own)
        node.mean([given]).wait()
        require_rank_order(given)
    for transport in transports:
        transport.close()
    return {name: median(values) for name, values in times.items()}


def require_rank_order(mean: Tensor) -> None:
    """Require that the mean is, bit for bit, the sum in order of the ranks, divided: as in one process."""
    total = contribution(0, len(mean))
    for rank in range(1, RANKS):
        total += contribution(rank, len(mean))
    assert torch.equal(mean, total / RANKS), "shared memory gives another mean than one process does"


def main(arguments: argparse.Namespace) -> int:
    """Measure, and report whether the target is met."""
    gains: dict[str, list[float]] = {name: [] for name in TARGETS}
    for numel in SIZES:
        took = ranks.run(seconds, RANKS, numel)[0]
        passes_per_second = 2 * RANKS / took["copy"]
        print(
            f"{numel / 1e6:.0f} M floats, {RANKS} ranks: gloo on loopback {took['all_reduce'] * 1e3:.2f} ms, "
            f"through the engine {took['world.mean'] * 1e3:.2f} ms; a copy {took['copy'] * 1e3:.2f} ms, "
            f"{passes_per_second * numel * 4 / 1e9:.1f} GB/s read and written"
        )
        for name, of_size in gains.items():
            of_size.append(took["all_reduce"] / took[name])
            print(
                f"{numel / 1e6:.0f} M floats, {name}: {took[name] * 1e3:.2f} ms, {PASSES[name]} passes by "
                f"arithmetic, {took[name] * passes_per_second:.1f} measured, gain {of_size[-1]:.2f}"
            )
    for name, of_size in gains.items():
        print(f"{name}, {min(of_size):.2f} times as fast as gloo on loopback (target >= {TARGETS[name]:.0f})")
    return int(any(min(of_size) < TARGETS[name] for name, of_size in gains.items()))


if __name__ == "__main__":
    sys.exit(record.run(main))
