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
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import ranks
import record
from latency_steps import (
    WAIT_SECONDS,
    WORKERS,
    calibrated,
    cell_of,
    described,
    formula_seconds,
    measured,
    simulated_cell,
    simulated_seconds,
    steps_of,
)
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullLocator

from thinwire.emulation.network import INTERFACE, Network
from thinwire.plugins import ROOT
from thinwire.report.figures import style

POINTS, FIGURE = Path(__file__).parent / "records" / "latency.csv", ROOT / "docs" / "latency.png"
RATES, ROUND_TRIPS = (50, 200, 1000), (0, 50)  # Mbit/s, ms
PERIODS = (1, 2, 4, 8, 16, 32, 64, 128)
MOST_MEDIAN, MOST_P95 = 0.05, 0.10


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
    figure.supxlabel("steps between two exchanges", fontsize="medium")
    figure.supylabel("predicted over measured step", fontsize="medium")
    handles = [
        Line2D([], [], linestyle="", marker=marker, color="black", label=method)
        for method, marker in markers.items()
    ] + [
        Line2D(
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
