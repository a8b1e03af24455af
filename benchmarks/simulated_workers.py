"""How long it takes to simulate thousands of workers that nobody has traced, and how much memory.

    python benchmarks/simulated_workers.py [--record]

Simulates ResNet-18 and methods of the suite `times/cifar10` on nodes of eight A100: 64 to 16,384 workers. The
methods need all of the simulator: the recurrence over all workers, the event loop, channels inside and
between nodes, gathers, and servers. Gossip is left out, because its calls depend on the number of workers: it
is mirrored anew for each, which takes longer than simulating it.

Each method has a process of its own, on one core. Prints the seconds of the processor that it takes to mirror
the method and to simulate each number of workers, and the peak memory of the process. Exits with 0 only if
16,384 workers of each method take at most 1 s, and its process at most 2 GB.
"""

import argparse
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import record
import torch

from thinwire.config.expand import cells
from thinwire.config.hardware import load_cluster
from thinwire.config.suite import load
from thinwire.simulation.without_data import EVERY_STEP, CellWithoutData

SUITE, NETWORK = "times/cifar10", "resnet18"
METHODS = (
    *("ssgd", "top_k", "dgc"),  # by the recurrence
    *("ps_sgd", "multi_step_delay", "hsgd", "daso"),  # by the event loop
)
WORKERS = (64, 256, 1024, 4096, 16384)
PER_NODE, CLUSTER, ACCELERATOR = 8, "infiniband_1600g_8gpus", "a100_bf16"
MOST_SECONDS, MOST_MEGABYTES = 1.0, 2000.0


@dataclass(frozen=True)
class Cost:
    """What it takes to simulate a method."""

    mirroring: float  # seconds of the processor
    seconds: dict[int, float]  # of the processor, by the number of workers
    megabytes: float  # the peak memory of the process
    more_megabytes: float  # than after mirroring


def main(arguments: argparse.Namespace) -> int:
    """Measure, and report whether the targets are met."""
    sizes = "".join(f"{workers:8,}" for workers in WORKERS)
    print(f"seconds, by workers   mirroring{sizes}      MB")
    costs: list[Cost] = []
    for method in METHODS:
        with ProcessPoolExecutor(1, get_context("spawn")) as alone:
            cost = alone.submit(cost_of, method).result()
        seconds = "".join(f"{cost.seconds[workers]:8.3f}" for workers in WORKERS)
        print(f"{method:20} {cost.mirroring:10.1f}{seconds}{cost.megabytes:8.0f}", flush=True)
        costs.append(cost)
    longest = max(cost.seconds[WORKERS[-1]] for cost in costs)
    most = max(cost.megabytes for cost in costs)
    more = max(cost.more_megabytes for cost in costs)
    print(f"{WORKERS[-1]:,} workers: at most {longest:.2f} s (target <= {MOST_SECONDS:g})")
    print(f"memory: at most {most:.0f} MB (target <= {MOST_MEGABYTES:g}), of which simulating {more:.0f} MB")
    return int(longest > MOST_SECONDS or most > MOST_MEGABYTES)


def cost_of(method: str) -> Cost:
    """Mirror the method, and simulate it with each number of workers, on one core."""
    torch.set_num_threads(1)
    settings = load(SUITE).without_data
    assert settings is not None
    (cell,) = (each for each in cells(SUITE) if (each.model.label, each.method.label) == (NETWORK, method))
    described = load_cluster(CLUSTER)
    began = time.process_time()
    known = CellWithoutData(cell, PER_NODE, ACCELERATOR, settings.rounds.get(method, EVERY_STEP))
    mirroring = time.process_time() - began
    before = peak_megabytes()
    seconds = {}
    for workers in WORKERS:
        began = time.process_time()
        known.on(described, workers // PER_NODE)
        seconds[workers] = time.process_time() - began
    return Cost(mirroring, seconds, peak_megabytes(), peak_megabytes() - before)


def peak_megabytes() -> float:
    """The most memory that this process has had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


if __name__ == "__main__":
    raise SystemExit(record.run(main))
