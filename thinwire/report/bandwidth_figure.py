"""The figure `bandwidth`: at which rates of the links a method is faster than the better baseline."""

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm

from thinwire.report import style
from thinwire.report.break_even import faster_between
from thinwire.report.panels import finish, grid, name_methods, panel, say, task_of, unique
from thinwire.statistics.rounding import fixed

NAME = "bandwidth"
# The darker, the faster, so it can be read in grey.
_COLOURS, _SCALE = "YlGnBu", LogNorm(1 / 4, 16)
_FASTER = 1.005  # would not be printed as 1.00
_BRIGHT_BELOW = 3.0  # here black text is easier to read than white text


def write(rows: pd.DataFrame, folder: Path, baselines: Sequence[str]) -> None:
    """Draw a table of speed-ups for each cluster and task: a row for each method, a column for each rate."""
    if rows.empty:
        say("No step has been simulated at any rate of the links.", folder / NAME)
        return
    rows = rows.assign(task=task_of(rows))
    places = unique(rows[["cluster", "workers"]])
    tasks, methods, rates = unique(rows.task), unique(rows.method), sorted(set(rows.rate_gbit_per_second))
    inches = (style.COLUMN_INCHES, 0.65 + 0.16 * len(methods))
    figure, all_axes = grid(len(places), len(tasks), inches, sharey=True)
    for axes_of_place, (cluster, workers) in zip(all_axes, places):
        for axes, task in zip(axes_of_place, tasks):
            here = panel(rows, task=task, cluster=cluster, workers=workers)
            _table(axes, here, methods, rates, baselines)
            name_methods(axes, methods, baselines)
            axes.set_title(f"{task}\n{workers} workers, latency of {cluster}", fontsize=7)
    for axes in all_axes[-1]:
        axes.set_xlabel("rate of each link, Gbit/s")
    note = (
        f"simulated; speed-up over the better of {', '.join(baselines)}; bold: faster; right column: "
        "the rates in Gbit/s at which a method is faster; thick lines: the break-even lies here"
    )
    finish(figure, folder / NAME, note)


def _table(
    axes: Axes, rows: pd.DataFrame, methods: list[str], rates: list[float], baselines: Sequence[str]
) -> None:
    table = rows.pivot_table(index="method", columns="rate_gbit_per_second", values="speed_up")
    table = table.reindex(index=methods, columns=rates)
    axes.imshow(table, aspect="auto", cmap=_COLOURS, norm=_SCALE)
    axes.set_xticks(range(len(rates)), [f"{rate:g}" for rate in rates])
    axes.grid(False)
    for place, (method, row) in enumerate(table.iterrows()):
        known = row.dropna()
        for column, speed_up in enumerate(row):
            if not np.isnan(speed_up):
                axes.text(
                    column,
                    place,
                    fixed(speed_up, 2 if speed_up < 9.995 else 0),
                    ha="center",
                    va="center",
                    fontsize=5.5,
                    fontweight="bold" if speed_up > _FASTER else "normal",
                    color="black" if speed_up < _BRIGHT_BELOW else "white",
                )
        if method in baselines or known.empty:
            continue
        for edge, (left, right) in enumerate(pairwise(row), 1):
            if min(left, right) <= 1 < max(left, right):  # False, if one is missing
                axes.plot([edge - 0.5] * 2, [place - 0.5, place + 0.5], color="black", linewidth=1.8)
        text = _described(faster_between(list(known.index), list(known)))
        axes.text(len(rates) - 0.4, place, text, va="center", fontsize=5.5)


def _described(faster: tuple[float, float] | None) -> str:
    if faster is None:
        return "never"
    low, high = faster
    if math.isinf(high):
        return f"> {low:.2g}" if low else "always"
    return f"{low:.2g} to {high:.2g}" if low else f"< {high:.2g}"
