"""How long steps of all methods take on a described H100, beside those that an H200 made.

    python benchmarks/method_steps.py [--record]

The H200's are in the newest record of `benchmarks/gpu.py --parts steps_of_methods`, whose four workers share
the device. For each network and method it prints the milliseconds of a worker's step. The last two columns
have what the method, its codecs, its servers and the optimizer do. An H200 computes like an H100, with a
faster memory. Its whole steps were measured as in training; for the rest, it waited at the end of each
activity. A method that the record does not have is left out.
"""

import argparse
import json
import sys
from collections import defaultdict
from itertools import chain
from statistics import median

import record
import torch
from gpu_parts.steps_of_methods import CLUSTER, SUITES, measured

from thinwire.simulation.program import Compute, Post
from thinwire.simulation.without_data import CellWithoutData
from thinwire.trace.recorder import DECODE, ENCODE, METHOD, OPTIMIZER, SERVER

ACCELERATOR = "h100_bf16"
# The device is the limit of the GPT, and the host that of the others: their times are also those of a host.
MOST_RATIO = {"resnet18": 2.0, "resnet50": 2.0, "gpt_124m": 1.25}
BESIDE_PASSES = (METHOD, ENCODE, DECODE, OPTIMIZER, SERVER)


def main(arguments: argparse.Namespace) -> int:
    """Print both, and whether they are close enough."""
    torch.set_num_threads(1)
    newest = max(record.FOLDER.glob("*/gpu_methods.txt")).read_text()
    lines = [json.loads(line) for line in newest.splitlines() if line.startswith("{")]
    (figures,) = (line["figures"] for line in lines if line["part"] == "steps_of_methods")
    print(f"{'ms of a step':32}{'H200':>8}{'described':>11}{'ratio':>7}{'   beside passes: H200, described'}")
    failed = False
    for suite, network in SUITES.items():
        ratios: dict[str, float] = {}
        for cell, round_ in measured(suite):
            method = cell.method.label
            own: dict[str, float] | None = figures[network].get(method)
            if own is None:
                print(f"{network:10}{method:22}  newer than the record of the H200")
                continue
            described = kinds(CellWithoutData(cell, CLUSTER.workers_per_node, ACCELERATOR, round_))
            whole = sum(described.values())
            ratios[method] = own["step"] / whole
            beside = [sum(each.get(kind, 0.0) for kind in BESIDE_PASSES) for each in (own, described)]
            step = f"{own['step']:8.1f}{whole:11.1f}{ratios[method]:7.2f}"
            print(f"{network:10}{method:22}{step}{beside[0]:22.1f}{beside[1]:11.1f}", flush=True)
        middle = median(ratios.values())
        failed |= max(middle, 1 / middle) > MOST_RATIO[network]
        low, high, most = min(ratios.values()), max(ratios.values()), MOST_RATIO[network]
        print(f"{network}: ratios of {low:.2f} to {high:.2f}, {middle:.2f} in the median (target <= {most})")
    return int(failed)


def kinds(made: CellWithoutData) -> dict[str, float]:
    """Milliseconds of a worker's step, by kind. Each worker has a share of the servers' work."""
    schedule = made.schedule(CLUSTER.nodes)
    found: dict[str, float] = defaultdict(float)
    steps = [step for role in schedule.role_of for step in schedule.steps[role]]
    for operation in chain.from_iterable(steps):
        if isinstance(operation, Compute):
            found[operation.kind] += operation.seconds
        elif isinstance(operation, Post):
            found[SERVER] += operation.server_seconds / len(operation.members)
    return {kind: 1e3 * seconds / len(steps) for kind, seconds in found.items()}


if __name__ == "__main__":
    sys.exit(record.run(main))
