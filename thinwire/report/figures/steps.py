"""Figures of the time of a step: its parts, the rungs of a ladder, and the ratio between a ladder's ends."""

import math
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator
from numpy.typing import NDArray

from thinwire.report.figures import style
from thinwire.report.figures.style import filled, finish, grid, legend, name_methods, say, task_of
from thinwire.report.report_files import HSGD_RATIO, write_table
from thinwire.report.tables.numbers import ratio as ratio_in_words

# From left to right, with looks that differ in grey, too.
_PARTS = {
    "compute_seconds": ("computing", "0.3", ""),
    "others_seconds": ("waiting for others", "0.65", ""),
    "server_seconds": ("waiting for a server", "0.92", "||||"),
    "communication_seconds": ("exposed communication", "#f0b050", "/////"),
}


_SEEN = 0.005  # of the longest bar; shorter parts have no entry in the legend


def _stacked_bars(axes: Axes, rows: pd.DataFrame) -> pd.Series:
    """Draw a bar from the top for each row, in milliseconds; returns where each ends."""
    left = pd.Series(0.0, index=rows.index)
    longest = rows[[*_PARTS]].sum(axis=1).max() * 1e3
    for column, (label, colour, hatch) in _PARTS.items():
        milliseconds = rows[column] * 1e3
        shown = label if milliseconds.max() >= _SEEN * longest else f"_{label}"
        axes.barh(
            range(len(rows)), milliseconds, left=left, height=0.72, label=shown, **filled(colour, hatch)
        )
        left = left + milliseconds.fillna(0)
    axes.grid(False, axis="y")
    return left


def _legend_of_parts(figure: Figure, all_axes: Sequence[Axes]) -> None:
    """Write a legend of the parts that the bars of any panel show; none if all bars are plain."""
    found: dict[str, Artist] = {}
    for axes in all_axes:
        handles, labels = axes.get_legend_handles_labels()
        found |= zip(labels, handles)
    labels = [label for label, *_ in _PARTS.values() if label in found]
    if labels:
        legend(figure, [found[label] for label in labels], labels)


BREAKDOWN = "step_breakdown"


def write_breakdown(rows: pd.DataFrame, folder: Path, baselines: Sequence[str]) -> None:
    """Draw stacked bars: a column of panels for each cluster, a row for each data set and model."""
    if rows.empty:
        say("No step has been simulated: there is nothing to break down.", folder / BREAKDOWN)
        return
    rows = rows.assign(task=task_of(rows))
    clusters, methods = rows.cluster.unique(), list(rows.method.unique())
    panels = list(product(rows.task.unique(), clusters))
    inches = (2 * style.COLUMN_INCHES / max(2, len(clusters)), 0.6 + 0.15 * len(methods))
    figure, all_axes = grid(len(panels), len(clusters), inches, sharey=True)
    for axes, (task, cluster) in zip(all_axes, panels):
        of_task = rows[rows.task == task]
        _bars(axes, of_task[of_task.cluster == cluster], methods)
        name_methods(axes, methods, baselines)
        workers = "/".join(map(str, of_task.workers.unique()))
        axes.set_title(f"{task}\n{workers} workers on {cluster}", fontsize=7)
    for axes in all_axes[-len(clusters) :]:
        axes.set_xlabel("ms a step")
    _legend_of_parts(figure, all_axes)
    finish(figure, folder / BREAKDOWN, "simulated; means over the steps and the workers; scales differ")


def _bars(axes: Axes, rows: pd.DataFrame, methods: list[str]) -> None:
    by_method = rows.set_index("method").reindex(methods)
    ends = _stacked_bars(axes, by_method)
    axes.set_xlim(0, 1.05 * ends.max())
    for place, missing in enumerate(by_method.compute_seconds.isna()):
        if missing:
            axes.text(0, place, " no simulated time", va="center", fontsize=6, color="0.4")


LADDER = "ladder"
_NOTE = "number at a bar: step of the first rung over this one; below the line: methods that are no rungs"
_ROOM_FOR_NUMBERS = 1.25  # of the longest bar


def write_ladder(table: pd.DataFrame, folder: Path) -> None:
    """Draw a bar for each row of `ladder.ladder`: a panel for each task, cluster and kind.

    Simulated bars show their parts. Bars of runs are plain.
    """
    style.use()
    if table.empty:
        say("No step of a rung has a time.", folder / LADDER)
        return
    table = table.assign(task=task_of(table), place=table.cluster.where(table.cluster != "", "as it ran"))
    panels = list(table.groupby(["task", "place", "kind", "workers"], sort=False))
    inches = (style.COLUMN_INCHES, 0.7 + 0.16 * max(len(rows) for _, rows in panels))
    figure, all_axes = grid(len(panels), 1, inches)
    for axes, ((task, place, _, workers), rows) in zip(all_axes, panels):
        _rungs(axes, rows.reset_index(drop=True))
        axes.set_title(f"{task}\n{workers} workers on {place}", fontsize=7)
        axes.set_xlabel("ms a step")
    _legend_of_parts(figure, all_axes)
    kinds = ", ".join(table.kind.unique())
    finish(figure, folder / LADDER, f"{kinds}; {_NOTE}; scales differ")


def _rungs(axes: Axes, rows: pd.DataFrame) -> None:
    if rows[[*_PARTS]].isna().to_numpy().all():
        ends = rows.step_seconds * 1e3
        axes.barh(range(len(rows)), ends, height=0.72, color="0.45")
        axes.grid(False, axis="y")
    else:
        ends = _stacked_bars(axes, rows)
    for number, (end, ratio) in enumerate(zip(ends, rows.first_over_this)):
        axes.text(end, number, f" {ratio_in_words(ratio)}", va="center", fontsize=6)
    axes.set_xlim(0, _ROOM_FOR_NUMBERS * ends.max())
    name_methods(axes, list(rows.method), [])
    if rows.rung.isna().any() and rows.rung.notna().any():
        axes.axhline(rows.rung.notna().sum() - 0.5, color="0.1", linewidth=0.6)


# The publication names the one that is drawn thick.
LEVELS, PUBLISHED = (2, 5, 10, 20, 50), 20
_PANEL_INCHES = 2.0  # the height
_THIN, _THICK = 0.8, 2.2


def write_hsgd_ratio(rows: pd.DataFrame, results: Path) -> list[Path]:
    """Write the table and the figure, with the same bytes every time; returns the paths of both.

    Args:
        rows: as `ratios` gives them; for each number of nodes a whole grid.
        results: the folder of results.
    """
    table = results / "tables" / f"{HSGD_RATIO}.csv"
    write_table(rows, table)
    stem = results / "figures" / HSGD_RATIO
    style.use()
    nodes = rows.nodes.unique()
    inches = (style.COLUMN_INCHES / len(nodes), _PANEL_INCHES)
    figure, all_axes = grid(len(nodes), len(nodes), inches, sharey=True)
    for axes, number in zip(all_axes, nodes):
        own = rows[rows.nodes == number]
        _contours(axes, own)
        axes.set_title(f"{number} nodes,\n{own.workers.iloc[0]} workers", fontsize=7)
    all_axes[0].set_ylabel("computing, s a step")
    figure.supxlabel("Gbit/s of a node's link", fontsize=8)
    (cluster,), (accelerator,) = rows.cluster.unique(), rows.accelerator.unique()
    note = f"simulated, {cluster} with links of other rates, computing scaled from {accelerator}"
    finish(figure, stem, f"{note}; a line: so many times the highest rung's step")
    return [table, stem.with_suffix(".pdf")]


def _contours(axes: Axes, rows: pd.DataFrame) -> None:
    """Draw a line for each level that the ratio passes, interpolated on logarithmic axes."""
    table = rows.pivot(index="compute_seconds", columns="rate_gbit_per_second", values="ratio")
    axes.set_xscale("log")
    axes.set_yscale("log")
    passed = [level for level in LEVELS if table.min().min() < level < table.max().max()]
    if passed:
        lines = axes.contour(
            table.columns,
            table.index,
            np.log(table.to_numpy()),
            levels=np.log(passed),
            colors="0.1",
            linewidths=[_THICK if level == PUBLISHED else _THIN for level in passed],
            linestyles="solid",
        )
        middles = [_middle(np.asarray(path.vertices)) for path in lines.get_paths()]
        axes.clabel(lines, fmt=lambda value: f"{np.exp(value):.0f}", fontsize=6, manual=middles)
    for axis, numbers in ((axes.xaxis, table.columns), (axes.yaxis, table.index)):
        axis.set_major_locator(FixedLocator(_decades_between(float(min(numbers)), float(max(numbers)))))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_locator(NullLocator())


def _middle(line: NDArray[np.float64]) -> tuple[float, float]:
    """The point of a line, as an array of [points, 2], that is nearest to the middle between its ends."""
    logs = np.log(line)
    away = ((logs - (logs[0] + logs[-1]) / 2) ** 2).sum(axis=1)
    x, y = line[away.argmin()]
    return float(x), float(y)


def _decades_between(low: float, high: float) -> list[float]:
    """The powers of ten in an axis, without its ends, where a label would touch that of the next panel."""
    exponents = range(math.floor(math.log10(low)) + 1, math.ceil(math.log10(high)))
    return [10.0**exponent for exponent in exponents]
