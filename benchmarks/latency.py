"""Steps over links with a latency: measured, simulated, and by the formula that calculators use.

    python benchmarks/latency.py [--record] [--periods 1 2 4 ...]

Two workers train with `ssgd`, `local_sgd` and `diloco` in emulated clusters: links of 50, 200 and 1000
Mbit/s, round trips of 0 and 50 ms, and 1 to 128 steps between two exchanges (`ssgd`: 1). It takes about ten
minutes, needs a quiet machine, root and /dev/net/tun. Two workers and the process that delays would crowd
each other on two cores. So computing is a timed wait of 10 ms a step here, besides a network so small that it
takes 2 to 3 ms.

What is simulated comes from runs over links without a latency, at a rate that no compared run has: they
calibrate what a call costs, as in `simulator.py`. The formula is that of a ring of W members,

    step = computing + (2 (W-1) latency + 2 (W-1) / W bytes / rate) / period

A point is the median over three repetitions of the median period, without the first one, in which TCP finds
its window. The status that workers exchange once a second is no part of a step, as in `simulator.py`. Prints
the errors of both, and for the class *with latency* of the simulator's validation the targets: median <= 5 %,
95th percentile <= 10 %.

With `--record` it also draws docs/latency.png, from the points in benchmarks/records/latency.csv.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import ranks
import record
import simulator
import torch
from matplotlib.ticker import FuncFormatter, NullLocator
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from thinwire import plugins
from thinwire.base.options import resolve
from thinwire.base.placement import Cluster
from thinwire.config import clusters
from thinwire.config.cell import Cell
from thinwire.config.clusters import ClusterDescription
from thinwire.config.expand import cells
from thinwire.config.yaml_file import Module
from thinwire.emulation.network import INTERFACE, Network
from thinwire.plugins import ROOT
from thinwire.report.figures import style
from thinwire.simulation.calibration import Calibration, Sample, contention, costs_of_calls
from thinwire.simulation.compute import WARM_UP_STEPS
from thinwire.simulation.operations import Compute, Post, Step
from thinwire.simulation.simulate import SimulatedCell
from thinwire.trace.recorder import FORWARD
from thinwire.train.cell_task import deterministic, task_of
from thinwire.train.trainer import Trainer
from thinwire.transport.processes import Processes

POINTS, FIGURE = Path(__file__).parent / "records" / "latency.csv", ROOT / "docs" / "latency.png"
WORKERS, WAIT_SECONDS = 2, 0.01
RATES, ROUND_TRIPS = (50, 200, 1000), (0, 50)  # Mbit/s, ms
PERIODS = (1, 2, 4, 8, 16, 32, 64, 128)
REPETITIONS, FEWEST_PERIODS, FEWEST_STEPS = 3, 2, 16
CALIBRATED_AT, CALIBRATED_WITH, CALIBRATING_STEPS = 400, ("ssgd", "local_sgd"), 35
MOST_MEDIAN, MOST_P95 = 0.05, 0.10
BATCH, LEARNING_RATE = 4, 0.001
CPU = torch.device("cpu")


def main(arguments: argparse.Namespace) -> int:
    """Measure and simulate, and report whether the targets are met."""
    style.use()
    with tempfile.TemporaryDirectory() as folder:
        points = pd.DataFrame(compared(Path(folder), arguments.periods))
    met = report(points)
    if arguments.record:
        points.round(6).to_csv(POINTS, index=False)
        draw(points)
    print(f"{sum(met)} of {len(met)} targets are met")
    return int(not all(met))


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--periods", type=int, nargs="+", default=PERIODS, help="steps between two exchanges")


def compared(results: Path, periods: Sequence[int]) -> Iterator[dict[str, object]]:
    """Measured, simulated and calculated seconds of a step, for each method, period and link."""
    subprocess.run(
        [sys.executable, "-m", "thinwire", "data", "digits", "--results", results],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    chosen = {("ssgd", 1): cell_of("ssgd", 1)} | {
        (method, period): cell_of(method, period)
        for method, period in product(("local_sgd", "diloco"), periods)
    }
    simulated = {
        key: simulated_cell(cell, results, steps_of(key[1], warm=True)) for key, cell in chosen.items()
    }
    calibration = calibrated(results)
    for trip, rate in product(ROUND_TRIPS, RATES):
        link = described(rate, trip)
        network = Network(WORKERS, link.link.rate_bits_per_second, link.link.latency_seconds)
        try:
            every = ranks.run(measured, WORKERS, chosen, results, interface=INTERFACE, enter=network.enter)[0]
        finally:
            network.close()
        for (method, period), own in simulated.items():
            seconds = sorted(every[method, period])
            point = {
                "method": method,
                "period": period,
                "rate_mbit_per_second": rate,
                "round_trip_ms": trip,
                "measured_seconds": median(seconds),
                "spread": seconds[-1] / seconds[0] - 1,
                "simulated_seconds": simulated_seconds(own, link, calibration, period),
                "formula_seconds": formula_seconds(own, link, period),
            }
            print(shown(point), flush=True)
            yield point


def cell_of(method: str, period: int) -> Cell:
    """A cell of two workers on two nodes that computes as little as possible."""
    (base,) = (cell for cell in cells("validation") if (cell.method.label, cell.workers) == ("ssgd", WORKERS))
    optimizer = base.recipe.optimizer.model_copy(update={"lr": LEARNING_RATE})
    recipe = base.recipe.model_copy(update={"batch": BATCH, "optimizer": optimizer})
    given: dict[str, object] = {} if method == "ssgd" else {"period": period}
    return replace(base, method=Module(method, method, given), recipe=recipe, deviates=True)


def steps_of(period: int, warm: bool = False) -> int:
    """How many steps are measured, in whole periods; with those before them if `warm`."""
    whole = max(FEWEST_PERIODS, FEWEST_STEPS // period) * period
    return whole + max(period, WARM_UP_STEPS) * warm


def described(rate: int, round_trip_ms: int) -> ClusterDescription:
    """An emulated cluster with such links."""
    cluster = simulator.cluster(rate)
    link = cluster.link.model_copy(update={"latency_seconds": round_trip_ms / 2e3})
    return cluster.model_copy(update={"link": link})


@contextmanager
def waits() -> Iterator[None]:
    """Let every forward pass take so much longer; the model has one linear layer."""

    def wait(module: nn.Module, inputs: object, output: Tensor) -> None:
        if isinstance(module, nn.Linear):
            time.sleep(WAIT_SECONDS)

    hook = register_module_forward_hook(wait)
    yield
    hook.remove()


def measured(chosen: dict[tuple[str, int], Cell], results: Path) -> dict[tuple[str, int], list[float]]:
    """Seconds of a step, one for each repetition, by method and period; run by each worker."""
    deterministic(CPU)
    found: dict[tuple[str, int], list[float]] = {key: [] for key in chosen}
    with waits():
        for _, (key, cell) in product(range(REPETITIONS), chosen.items()):
            found[key].append(median(period_seconds(cell, key[1], results)))
    return found


def period_seconds(cell: Cell, period: int, results: Path) -> Iterator[float]:
    """Of each period after the first: its seconds over its steps."""
    task = task_of(cell, results, CPU, verify=False)
    method = plugins.get("method", cell.method.use).load()
    transport = Processes(task.cluster, CPU)
    trainer = Trainer(task, method, resolve(method, cell.method.options), transport)
    trainer.setup()
    trainer.status.is_time = lambda: False  # type: ignore[method-assign]
    trainer.train(until=max(period, WARM_UP_STEPS))
    for _ in range(steps_of(period) // period):
        began = time.perf_counter()
        trainer.train(until=trainer.step + period)
        yield (time.perf_counter() - began) / period
    transport.close()


def simulated_cell(cell: Cell, results: Path, steps: int) -> SimulatedCell:
    """The cell, with the wait in each of its forward passes."""
    made = SimulatedCell(cell, results, Cluster(WORKERS, WORKERS), steps)
    made.steps = {worker: [with_wait(step) for step in own] for worker, own in made.steps.items()}
    return made


def with_wait(step: Step) -> Step:
    first = next(place for place, each in enumerate(step) if is_forward(each))
    return [*step[: first + 1], Compute(FORWARD, "wait", WAIT_SECONDS), *step[first + 1 :]]


def is_forward(operation: Any) -> bool:
    return isinstance(operation, Compute) and operation.kind == FORWARD


def calibrated(results: Path) -> Calibration:
    """What the machine and the software add, from runs over links without a latency."""
    traces, made = {}, {}
    for method in CALIBRATED_WITH:
        cell = cell_of(method, 4)
        with waits():
            traces[method] = simulator.emulated(cell, CALIBRATED_AT, results)
        made[method] = simulated_cell(cell, results, CALIBRATING_STEPS)
    beside = contention([(trace, made[method].steps[0]) for method, trace in traces.items()])
    samples = [
        Sample(traces[method], beside, simulator.simulation(made[method], CALIBRATED_AT))
        for method in CALIBRATED_WITH
    ]
    costs = costs_of_calls({"mean": samples})
    print(
        f"computing beside others: {beside.typical:.3f} times as long as alone; a mean: "
        f"{costs['mean'].hand_over_seconds * 1e3:.2f} ms to hand over, "
        f"{costs['mean'].latency_seconds * 1e3:.2f} ms latency"
    )
    return Calibration(beside, costs)


def simulated_seconds(
    own: SimulatedCell, cluster: ClusterDescription, calibration: Calibration, period: int
) -> float:
    """As `measured`: the median period over its steps, without the steps before."""
    profile = own.profile(clusters.HERE, cluster)
    ends = own.on(cluster, profile, calibration).timeline.end_seconds.max(axis=1)
    return float(np.median(np.diff(ends[max(period, WARM_UP_STEPS) - 1 :: period]))) / period


def formula_seconds(own: SimulatedCell, cluster: ClusterDescription, period: int) -> float:
    """Computing of one worker alone, and each period one ring at the rate and the latency of the link."""
    steps = own.steps[0][-steps_of(period) :]
    operations = [operation for step in steps for operation in step]
    computing = sum(each.seconds for each in operations if isinstance(each, Compute)) / len(steps)
    sent = sum(each.sent_bytes for each in operations if isinstance(each, Post)) / len(steps)
    link = cluster.link
    hops = 2 * (WORKERS - 1)
    return (
        computing + hops * link.latency_seconds / period + hops / WORKERS * sent / link.rate_bytes_per_second
    )


def shown(point: dict[str, Any]) -> str:
    """A line for a point."""
    real = point["measured_seconds"]
    simulated, formula = (100 * (point[f"{by}_seconds"] / real - 1) for by in ("simulated", "formula"))
    return (
        f"{point['rate_mbit_per_second']:4} Mbit/s, {point['round_trip_ms']:2} ms, {point['method']:9} every "
        f"{point['period']:3} steps: {real * 1e3:6.1f} ms a step (computing is a wait of "
        f"{WAIT_SECONDS * 1e3:.0f} ms), simulated {simulated:+5.1f} %, formula {formula:+6.1f} %"
    )


def report(points: pd.DataFrame) -> list[bool]:
    """The errors with and without a latency."""
    met = []
    for trip, of_trip in points.groupby("round_trip_ms"):
        for by in ("formula", "simulated"):
            errors = (of_trip[f"{by}_seconds"] / of_trip.measured_seconds - 1).abs()
            middle, high = errors.median(), errors.quantile(0.95)
            aims = by == "simulated" and trip > 0
            print(
                f"round trip {trip} ms, {by}, {len(errors)} points: median {middle * 100:.1f} %"
                f"{' (target <= 5)' * aims}, 95th percentile {high * 100:.1f} %{' (target <= 10)' * aims}, "
                f"at most {errors.max() * 100:.1f} %"
            )
            met += [bool(middle <= MOST_MEDIAN), bool(high <= MOST_P95)] * aims
    print(f"repetitions differ by {points.spread.quantile(0.95) * 100:.1f} % in the 95th percentile")
    return met


def draw(points: pd.DataFrame) -> None:
    """Predicted over measured seconds of a step, over the period: a panel for each link."""
    figure, panels = plt.subplots(
        len(ROUND_TRIPS), len(RATES), sharex=True, sharey=True, figsize=(style.COLUMN_INCHES * 2, 4.2)
    )
    looks = {"simulated": ("#0173b2", "simulated"), "formula": ("#c46a00", "formula")}
    markers = {"ssgd": "D", "local_sgd": "o", "diloco": "^"}
    for (row, trip), (column, rate) in product(enumerate(ROUND_TRIPS), enumerate(RATES)):
        axes = panels[row][column]
        its = points[(points.round_trip_ms == trip) & (points.rate_mbit_per_second == rate)]
        axes.axhspan(0.9, 1.1, color="black", alpha=0.1, linewidth=0)
        axes.axhline(1, color="black", linewidth=1)
        for (by, (colour, _)), (method, marker) in product(looks.items(), markers.items()):
            own = its[its.method == method].sort_values("period")
            ratio = own[f"{by}_seconds"] / own.measured_seconds
            face = colour if by == "simulated" else "white"
            axes.plot(own.period, ratio, marker, color=colour, markerfacecolor=face, markersize=5, alpha=0.9)
        axes.set(xscale="log", title=f"{rate} Mbit/s, round trip {trip} ms")
        axes.set_xticks(sorted(points.period.unique()))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_locator(NullLocator())
    figure.supxlabel("steps between two exchanges")
    figure.supylabel("predicted over measured step")
    handles = [
        plt.Line2D([], [], linestyle="", marker=marker, color="black", label=method)
        for method, marker in markers.items()
    ] + [
        plt.Line2D(
            [],
            [],
            linestyle="",
            marker="o",
            color=colour,
            label=name,
            markerfacecolor=colour if by == "simulated" else "white",
        )
        for by, (colour, name) in looks.items()
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    figure.savefig(FIGURE, bbox_inches="tight", dpi=200, metadata={"Software": None})


if __name__ == "__main__":
    sys.exit(record.run(main, options))
