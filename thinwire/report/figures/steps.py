"""Figures of the time of a step: its parts, and the rungs of a ladder."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from thinwire.report.figures import style
from thinwire.report.figures.style import finish, grid, legend, name_methods, say, task_of
from thinwire.report.tables import numbers

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
        look: dict[str, Any] = {"color": colour, "hatch": hatch, "edgecolor": "0.2", "linewidth": 0.3}
        shown = label if milliseconds.max() >= _SEEN * longest else f"_{label}"
        axes.barh(range(len(rows)), milliseconds, left=left, height=0.72, label=shown, **look)
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
        axes.text(end, number, f" {numbers.ratio(ratio)}", va="center", fontsize=6)
    axes.set_xlim(0, _ROOM_FOR_NUMBERS * ends.max())
    name_methods(axes, list(rows.method), [])
    if rows.rung.isna().any() and rows.rung.notna().any():
        axes.axhline(rows.rung.notna().sum() - 0.5, color="0.1", linewidth=0.6)
