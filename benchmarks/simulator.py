"""How far simulated steps are from emulated ones that the calibration has not seen, and how fast it is.

    python benchmarks/simulator.py [--record]

Trains every method of the suite `validation` on 2, 3 and 4 workers in emulated clusters with links of several
rates, and simulates the same. It takes about 30 minutes, needs a quiet machine and the right to make network
namespaces. A machine is faster at one time than at another, so there are four rounds over all runs. In a
round, the runs with one number of workers at one rate are a *group*. Each group begins with runs that
calibrate it. These are at a rate that no compared run has. They tell

- how much longer computing takes beside others, for each group;
- what handing a call over takes, and its latency, for each kind of calls. One method for each kind tells
  this, on 2 workers, from all groups together; for means there are two, which have one call at a time.

The error of a cell is the median of the errors of its four runs. Prints:

- the error of the seconds of a step, for each class of methods, and over all (targets: median <= 5 %, 95th
  percentile <= 10 %);
- the same, if the methods that calibrate are left out;
- of all pairs of methods on one cluster whose steps differ by more than the noise, how often the simulation
  names the faster one (target >= 95 %). The noise is how much longer the slowest of a cell's four runs takes
  than the fastest, in the 95th percentile;
- the error of the typical step when the traces are replayed, with calls as long as they were: the most over
  all runs (target <= 1 %);
- operations a second of the event loop (target >= 0.8 million), and how long 4,096 workers with 200 steps of
  20 buckets take (target <= 2 s).

With `--record` it also draws docs/validation.png, from the points in benchmarks/records/validation.csv.
Exits with 0 only if all targets are met.
"""

import argparse
import contextlib
import io
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import record
import seaborn as sns
from calibration import Calibration, CallCost, Contention, Sample, contention, costs_of_calls, simulated_on
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from replay import replayed, step_seconds, typical_seconds

from thinwire.base.placement import Cluster
from thinwire.cli.trace import trace_cell
from thinwire.config import hardware
from thinwire.config.cell import Cell
from thinwire.config.expand import cells
from thinwire.config.hardware import ClusterDescription
from thinwire.plugins import ROOT
from thinwire.report.figures import style
from thinwire.simulation import timeline
from thinwire.simulation.call_seconds import Loads
from thinwire.simulation.program import Await, HandOver, Program, Work
from thinwire.simulation.simulate import WARM_UP_STEPS, SimulatedCell, to_common_speed
from thinwire.trace import trace_file
from thinwire.trace.trace_file import Trace
from thinwire.train.result_files import trace_folder

SUITE, STEPS = "validation", 35
POINTS, FIGURE = Path(__file__).parent / "records" / "validation.csv", ROOT / "docs" / "validation.png"
# Rates of the links in Mbit/s, by the number of workers. More workers than cores crowd them: their links are
# slow, so that computing matters less.
RATES = {2: (50, 100, 300), 3: (100,), 4: (50, 100)}
ROUNDS = 4
CALIBRATED_AT = 150  # Mbit/s
# The methods that tell what calls of a kind cost. Both for means have one call at a time.
CALIBRATED_WITH = {
    "mean": ("ssgd", "local_sgd"),
    "gather": ("top_k",),
    "ragged gather": ("dgc",),
    "push_pull": ("ps_sgd",),
}
CALIBRATING = [method for methods in CALIBRATED_WITH.values() for method in methods]
# The methods that tell how much longer computing takes: with long and with short pauses.
CONTENTION_WITH = {2: tuple(CALIBRATING), 3: ("ssgd", "top_k"), 4: ("ssgd", "top_k")}
CLASSES = {
    "ssgd": "all-reduce",
    "ssgd_buckets": "all-reduce",
    "ssgd_bf16": "all-reduce",
    "top_k": "all-gather",
    "dgc": "all-gather",
    "ps_sgd": "server",
    "hylo": "server",
    "hsgd": "hierarchical",
    "local_sgd": "local",
    "daso": "delayed",
    "multi_step_delay": "delayed",
}
MOST_MEDIAN, MOST_P95, MOST_OF_REPLAY, LEAST_RIGHT = 0.05, 0.10, 0.01, 0.95
LEAST_OPERATIONS, MOST_SECONDS = 0.8e6, 2.0


def main(arguments: argparse.Namespace) -> int:
    """Validate, and report whether the targets are met."""
    style.use()
    with tempfile.TemporaryDirectory() as folder:
        points = pd.DataFrame(validated(Path(folder)))
    met = [*report_errors(points), report_pairs(points), *report_speed()]
    if arguments.record:
        points.round(6).to_csv(POINTS, index=False)
        draw(points)
    print(f"{sum(met)} of {len(met)} targets are met")
    return int(not all(met))


def validated(results: Path) -> Iterator[dict[str, object]]:
    """Real and simulated seconds of a step, for each method, number of workers and rate."""
    subprocess.run(
        [sys.executable, "-m", "thinwire", "data", "digits", "--results", results],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    every = {(cell.method.label, cell.workers): cell for cell in cells(SUITE)}
    simulated = {
        key: SimulatedCell(cell, results, Cluster(cell.workers, cell.nodes), STEPS)
        for key, cell in every.items()
    }
    for workers in RATES:
        to_common_speed([made for (_, its), made in simulated.items() if its == workers])
    groups = [(workers, rate) for workers, rates in RATES.items() for rate in rates]
    runs: dict[tuple[str, int, float], list[Run]] = defaultdict(list)
    samples: dict[str, list[Sample]] = defaultdict(list)
    contentions: dict[tuple[int, float], list[Contention]] = defaultdict(list)
    for workers, rate in groups * ROUNDS:
        traces = {
            method: emulated(every[method, workers], CALIBRATED_AT, results)
            for method in CONTENTION_WITH[workers]
        }
        beside = contention([(trace, simulated[m, workers].steps[0]) for m, trace in traces.items()])
        contentions[workers, rate].append(beside)
        if workers == 2:
            for kind, methods in CALIBRATED_WITH.items():
                for method in methods:
                    simulate = simulation(simulated[method, 2], CALIBRATED_AT)
                    trace = traces[method]
                    samples[kind].append(Sample(trace, step_seconds(trace), beside, simulate))
        for method in CLASSES:
            runs[method, workers, rate].append(Run.of(emulated(every[method, workers], rate, results)))
    costs = costs_of_calls(samples)
    report_calibration(contentions, costs)
    for (method, workers, rate), own in runs.items():
        simulate = simulation(simulated[method, workers], rate)
        made = [simulate(Calibration(beside, costs)) for beside in contentions[workers, rate]]
        errors = [one / run.seconds - 1 for one, run in zip(made, own)]
        seconds = sorted(run.seconds for run in own)
        real = median(seconds)
        print(
            f"{method:17} {workers} workers, {rate:3} Mbit/s: {real * 1e3:7.1f} ms, simulated "
            f"{median(made) * 1e3:7.1f} ms, {100 * median(errors):+5.1f} %",
            flush=True,
        )
        yield {
            "method": method,
            "kind": CLASSES[method],
            "workers": workers,
            "rate_mbit_per_second": rate,
            "emulated_seconds": real,
            "simulated_seconds": median(made),
            "error": median(errors),
            "replay_error": max(abs(run.replayed_error) for run in own),
            "spread": seconds[-1] / seconds[0] - 1,
        }


def report_calibration(
    contentions: Mapping[tuple[int, float], Sequence[Contention]], costs: Mapping[str, CallCost]
) -> None:
    """What the calibrating runs tell."""
    for (workers, rate), of_rounds in contentions.items():
        factors = ", ".join(f"{beside.typical:.2f}" for beside in of_rounds)
        print(
            f"computing beside others, {workers} workers, before the runs at {rate} Mbit/s: {factors} times "
            "as long as alone, by round"
        )
    for kind, cost in costs.items():
        print(
            f"{kind}: {cost.hand_over_seconds * 1e3:.2f} ms to hand over, "
            f"{cost.latency_seconds * 1e3:.2f} ms latency (from {' and '.join(CALIBRATED_WITH[kind])})"
        )


class Run(NamedTuple):
    """What is kept of an emulated run."""

    seconds: float  # of its typical step
    replayed_error: float  # of the typical step when its trace is replayed

    @classmethod
    def of(cls, trace: Trace) -> "Run":
        seconds = step_seconds(trace)
        again = typical_seconds(replayed(trace).step_seconds[WARM_UP_STEPS:])
        return cls(seconds, again / seconds - 1)


def emulated(cell: Cell, rate: float, results: Path) -> Trace:
    """The trace of a run in an emulated cluster."""
    traced = replace(cell, transport="emulated", cluster=cluster(rate), deviates=True)
    with contextlib.redirect_stdout(io.StringIO()):
        if trace_cell(traced, results, STEPS):
            raise SystemExit(f"{cell.path} could not be traced")
    return trace_file.read(trace_folder(results, traced))


def cluster(rate: float) -> ClusterDescription:
    """An emulated cluster with links of so many Mbit/s."""
    described = hardware.load_cluster("emulated_100m")
    link = described.link.model_copy(update={"rate_mbit_per_second": float(rate)})
    return described.with_link(link)


def simulation(cell: SimulatedCell, rate: float) -> Callable[[Calibration], float]:
    """Gives the typical seconds of a step after the first ones."""
    described = cluster(rate)

    def simulate(calibration: Calibration) -> float:
        timeline = simulated_on(cell, described, calibration)
        return typical_seconds(timeline.step_seconds[WARM_UP_STEPS:])

    return simulate


def report_errors(points: pd.DataFrame) -> list[bool]:
    """The errors by class of method, and over all."""
    errors = points.error.abs()
    for kind, of_kind in errors.groupby(points.kind):
        print(
            f"{kind:13} {len(of_kind):3} cells: median {of_kind.median() * 100:4.1f} %, 95th percentile "
            f"{of_kind.quantile(0.95) * 100:4.1f} %"
        )
    median, high = errors.median(), errors.quantile(0.95)
    print(
        f"error of a step over {len(points)} cells: median {median * 100:.1f} % (target <= 5), 95th "
        f"percentile {high * 100:.1f} % (target <= 10)"
    )
    others = errors[~points.method.isin(CALIBRATING)]
    print(
        f"without the methods that calibrate, {len(others)} cells: median {others.median() * 100:.1f} %, "
        f"95th percentile {others.quantile(0.95) * 100:.1f} %"
    )
    again = points.replay_error.max()
    print(f"traces replayed against themselves: at most {again * 100:.2f} % (target <= 1)")
    return [bool(median <= MOST_MEDIAN), bool(high <= MOST_P95), bool(again <= MOST_OF_REPLAY)]


def report_pairs(points: pd.DataFrame) -> bool:
    """How often the simulation names the faster of two methods."""
    noise = points.spread.quantile(0.95)
    right = pairs = 0
    for _, group in points.groupby(["workers", "rate_mbit_per_second"]):
        for one, other in combinations(group.itertuples(), 2):
            real = one.emulated_seconds / other.emulated_seconds
            if abs(np.log(real)) > np.log1p(noise):
                pairs += 1
                right += (one.simulated_seconds < other.simulated_seconds) == (real < 1)
    share = right / pairs
    print(f"noise: {noise * 100:.1f} %")
    print(
        f"the faster of two methods is named in {right} of {pairs} pairs, {share * 100:.1f} % (target >= 95)"
    )
    return share >= LEAST_RIGHT


def report_speed() -> list[bool]:
    """The speed of both ways to simulate."""
    described = hardware.load_cluster("infiniband_100g_4gpus")
    small, large = Cluster(64, 16), Cluster(4096, 1024)
    program = buckets(200, 20)
    began = time.process_time()
    timeline.by_events([program] * 64, small, Loads(described, small), np.ones((200, 64)))
    operations = small.workers * sum(len(step) + 1 for step in program)
    rate = operations / (time.process_time() - began)
    print(f"event loop: {rate / 1e6:.2f} million operations a second (target >= 0.8)")
    began = time.process_time()
    timeline.by_recurrence(program, large, Loads(described, large), np.ones((200, 4096)))
    seconds = time.process_time() - began
    print(f"4,096 workers, 200 steps of 20 buckets: {seconds:.2f} s (target <= 2)")
    return [rate >= LEAST_OPERATIONS, seconds <= MOST_SECONDS]


def buckets(steps: int, number: int) -> Program:
    """Steps in which buckets leave during the backward pass."""
    sent = HandOver("world", "mean", 0, False, 4_000_000, 0, 0.0)
    return [
        [
            Work(0.01),
            *(operation for _ in range(number) for operation in (Work(0.001), sent)),
            *(Await(step * number + call) for call in range(number)),
            Work(0.002),
        ]
        for step in range(steps)
    ]


def draw(points: pd.DataFrame) -> None:
    """Simulated over emulated seconds, with the line on which they are equal and the lines 10 % away."""
    figure, axes = plt.subplots(figsize=(style.COLUMN_INCHES, style.COLUMN_INCHES))
    ends = np.array([points.emulated_seconds.min() * 0.8, points.emulated_seconds.max() * 1.25]) * 1e3
    axes.plot(ends, ends, color="black", linewidth=1)
    axes.fill_between(ends, ends * 0.9, ends * 1.1, color="black", alpha=0.1, linewidth=0)
    sns.scatterplot(
        x=points.emulated_seconds * 1e3,
        y=points.simulated_seconds * 1e3,
        hue=points.kind,
        style=points.kind,
        ax=axes,
    )
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    axes.set(xlabel="emulated step (ms)", ylabel="simulated step (ms)")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_locator(NullLocator())
    axes.legend(title=None)
    figure.savefig(FIGURE, bbox_inches="tight", dpi=200, metadata={"Software": None})


if __name__ == "__main__":
    sys.exit(record.run(main))
