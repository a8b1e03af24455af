"""What the selection of the largest entries costs, in memory passes.

    python benchmarks/codecs.py [--record]

A memory pass is the time of copying the same tensor, in the same run. Measured are the exact selection of 1 %
of the entries, the sampled threshold at 0.1 %, and `torch.topk` of the same tensor, on 1, 10 and 25 million
normally distributed floats. Repetitions are interleaved and begin with cold caches. The figures are medians.

Targets: exact selection at most 1.05 times torch.topk plus 2 passes. Sampled threshold at most 5 passes; of 1
million floats 8, because a pass of so few is as short as the fixed costs of several operations.
"""

import argparse
import sys
import time
from collections.abc import Callable
from statistics import median

import record
import torch

from thinwire.codecs import select

REPETITIONS = 15
CACHE_BYTES = 256 * 2**20  # more than any cache holds
EXACT_DENSITY, SAMPLED_DENSITY = 0.01, 0.001
TOPK_FACTOR, TOPK_PASSES = 1.05, 2.0
SAMPLED_PASSES = {1_000_000: 8.0, 10_000_000: 5.0, 25_000_000: 5.0}  # by the number of floats


def seconds(actions: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Median time of each action; the actions are interleaved."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    other = torch.zeros(CACHE_BYTES // 4)
    for repetition in range(REPETITIONS + 1):
        for name, action in actions.items():
            other.add_(1)  # replaces what the last action left in the caches
            began = time.perf_counter()
            action()
            if repetition:  # the first one warms up
                times[name].append(time.perf_counter() - began)
    return {name: median(values) for name, values in times.items()}


def main(arguments: argparse.Namespace) -> int:
    """Measure, and report whether the targets are met."""
    torch.set_num_threads(1)
    stream = torch.Generator().manual_seed(0)
    worst_exact, sampled = 0.0, {}
    for numel in SAMPLED_PASSES:
        row = torch.randn(numel, generator=stream)
        other = torch.empty_like(row)
        k_exact, k_sampled = (select.count(d, numel) for d in (EXACT_DENSITY, SAMPLED_DENSITY))
        took = seconds(
            {
                "copy": lambda row=row, other=other: other.copy_(row),
                "topk": lambda row=row, k=k_exact: row.topk(k),
                "exact": lambda row=row, k=k_exact: select.exact([row], [k]),
                "sampled": lambda row=row, k=k_sampled: select.sampled([row], [k], stream),
            }
        )
        allowed = TOPK_FACTOR * took["topk"] + TOPK_PASSES * took["copy"]
        worst_exact = max(worst_exact, took["exact"] / allowed)
        passes = {name: value / took["copy"] for name, value in took.items()}
        sampled[numel] = passes["sampled"]
        print(
            f"{numel / 1e6:.0f} M floats: a pass {1e3 * took['copy']:.2f} ms; in passes: "
            f"torch.topk {passes['topk']:.1f}, exact {passes['exact']:.1f} "
            f"(allowed {allowed / took['copy']:.1f}), sampled threshold {passes['sampled']:.1f}"
        )
    print(f"exact selection {worst_exact:.2f} of what is allowed (target <= 1.00)")
    for numel, most in SAMPLED_PASSES.items():
        judged = f"{sampled[numel]:.1f} passes (target <= {most:.0f})"
        print(f"sampled threshold of {numel / 1e6:.0f} M floats: {judged}")
    return int(worst_exact > 1 or any(sampled[numel] > most for numel, most in SAMPLED_PASSES.items()))


if __name__ == "__main__":
    sys.exit(record.run(main))
