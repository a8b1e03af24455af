"""Figures of the time of a step, and of speed-ups."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

from thinwire.report.figures import style
from thinwire.report.figures.fitted_text import wrapped
from thinwire.report.figures.lines import End, end_of, layout, line_look, write_labels
from thinwire.report.figures.score_points import fast
from thinwire.report.figures.style import HOLLOW, finish, grid, legend, name_methods, say, task_of
from thinwire.simulation.simulated_file import VALIDATED_WORKERS

# From left to right, with looks that differ in grey, too.
PARTS = {
    "compute_seconds": ("computing", "0.3", ""),
    "others_seconds": ("waiting for others", "0.65", ""),
    "server_seconds": ("waiting for a server", "0.92", "...."),
    "communication_seconds": ("exposed communication", "#f0b050", "/////"),
}


_SEEN = 0.005  # of the longest bar; shorter parts have no entry in the legend


def stacked_bars(axes: Axes, rows: pd.DataFrame) -> pd.Series:
    """Draw a bar from the top for each row, in milliseconds; returns where each ends."""
    left = pd.Series(0.0, index=rows.index)
    longest = rows[[*PARTS]].sum(axis=1).max() * 1e3
    for column, (label, colour, hatch) in PARTS.items():
        milliseconds = rows[column] * 1e3
        look: dict[str, Any] = {"color": colour, "hatch": hatch, "edgecolor": "0.2", "linewidth": 0.3}
        shown = label if milliseconds.max() >= _SEEN * longest else f"_{label}"
        axes.barh(range(len(rows)), milliseconds, left=left, height=0.72, label=shown, **look)
        left = left + milliseconds.fillna(0)
    axes.grid(False, axis="y")
    return left


def legend_of_parts(figure: Figure, all_axes: Sequence[Axes]) -> None:
    """Write a legend of the parts that the bars of any panel show; none if all bars are plain."""
    found: dict[str, Artist] = {}
    for axes in all_axes:
        handles, labels = axes.get_legend_handles_labels()
        found |= zip(labels, handles)
    labels = [label for label, *_ in PARTS.values() if label in found]
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
    legend_of_parts(figure, all_axes)
    finish(figure, folder / BREAKDOWN, "simulated; means over the steps and the workers; scales differ")


def _bars(axes: Axes, rows: pd.DataFrame, methods: list[str]) -> None:
    by_method = rows.set_index("method").reindex(methods)
    ends = stacked_bars(axes, by_method)
    axes.set_xlim(0, 1.05 * ends.max())
    for place, missing in enumerate(by_method.compute_seconds.isna()):
        if missing:
            axes.text(0, place, " no simulated time", va="center", fontsize=6, color="0.4")


SPEED_UP = "speed_up_simulated"
_MARKERS = "osD^vP"
_APART = 0.6  # of the distance between two methods
_COLOURS = ("#0173b2", "#de8f05", "#029e73", "#cc78bc", "#ca9161", "#56b4e9")


def write_speed_up(rows: pd.DataFrame, folder: Path, baselines: Sequence[str]) -> None:
    """Draw a point for each method and cluster: a panel for each data set, model and kind.

    Points of runs with a process for each worker are full, and in panels of their own.
    """
    rows = rows[rows.speed_up.notna()]
    if rows.empty:
        say("No step of a method can be compared with that of a baseline.", folder / SPEED_UP)
        return
    rows = rows.assign(task=task_of(rows), place=rows.cluster.where(rows.cluster != "", "as it ran"))
    tasks, places, methods = (list(rows[name].unique()) for name in ("task", "place", "method"))
    inches = (style.COLUMN_INCHES, 0.7 + 0.2 * len(methods))
    figure, all_axes = grid(len(tasks), min(2, len(tasks)), inches, sharey=True, sharex=True)
    looks: dict[str, dict[str, Any]] = {
        place: {"marker": _MARKERS[i % len(_MARKERS)], "color": _COLOURS[i % len(_COLOURS)]}
        for i, place in enumerate(places)
    }
    for axes, task in zip(all_axes, tasks):
        of_task = rows[rows.task == task]
        axes.axvline(1, color="0.1", linewidth=2)
        for number, (place, look) in enumerate(looks.items()):
            points = of_task[of_task.place == place]
            hollow = HOLLOW if (points.kind == "simulated").all() else {}
            # Points of one method lie below each other, so that none hides another.
            beside = _APART * (number - (len(looks) - 1) / 2) / len(looks)
            at = [methods.index(method) + beside for method in points.method]
            axes.plot(points.speed_up, at, linestyle="", markersize=5, **look, **hollow)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
        name_methods(axes, methods, baselines)
        workers = "/".join(map(str, of_task.workers.unique()))
        axes.set_title(f"{task}, {workers} workers", fontsize=7)
        axes.tick_params(labelbottom=True)
    hollow = HOLLOW if (rows.kind == "simulated").all() else {}
    legend(figure, [Line2D([], [], linestyle="", **look, **hollow) for look in looks.values()], places)
    over = f"speed-up over the better of {', '.join(name for name in baselines if name in methods)}"
    figure.supxlabel(wrapped(over, figure.get_figwidth(), 7), fontsize=7)
    finish(figure, folder / SPEED_UP, "hollow: simulated; full: measured or emulated")


SPEED_UP_OVER_WORKERS = "speed_up_over_workers"
_IDEAL: dict[str, Any] = {"color": "0.5", "linewidth": 0.8, "linestyle": ":"}
_WIDER = 1.15  # the axes than their points, on each side


def write_speed_up_over_workers(rows: pd.DataFrame, folder: Path, baselines: Sequence[str]) -> None:
    """Draw a line for each method, in a panel for each task and cluster."""
    if rows.empty:
        say("No simulated step can be shown over the number of workers.", folder / SPEED_UP_OVER_WORKERS)
        return
    rows = rows.assign(task=task_of(rows), images_per_second=rows.batch_images / rows.step_seconds)
    shown = fast(rows, baselines)
    groups = list(rows.groupby(["task", "cluster"], sort=False))
    panels = [_over_fewest(own, baselines) for _, own in groups]
    titles = [f"{task}, on {cluster}" for (task, cluster), _ in groups]
    figure, all_axes = layout(titles, ["ideal", *shown])
    # All panels have one scale, so that they can be compared.
    every = pd.concat(panels)[["over_fewest", "ideal"]].to_numpy()
    every = every[np.isfinite(every)]
    for axes, lines in zip(all_axes, panels):
        _scale_of_workers(axes, sorted(set(lines.workers)), every.min() / _WIDER, every.max() * _WIDER)
        _lines(axes, lines, shown, baselines)
    few, many = VALIDATED_WORKERS
    note = (
        f"simulated; speed-up: images a second over those of the better of {', '.join(baselines)} on the "
        f"fewest workers; shaded: {few} to {many} workers, which validation covers"
    )
    if left_out := rows.method.nunique() - len(shown):
        note += f"; the {left_out} slowest methods are left out"
    finish(figure, folder / SPEED_UP_OVER_WORKERS, note)


def _over_fewest(rows: pd.DataFrame, baselines: Sequence[str]) -> pd.DataFrame:
    """The rows of a panel with the speed-up over the better baseline on the fewest workers, and the ideal."""
    fewest = rows.workers.min()
    one = rows[(rows.workers == fewest) & rows.method.isin(baselines)].images_per_second.max()
    return rows.assign(over_fewest=rows.images_per_second / one, ideal=rows.workers / fewest)


def _scale_of_workers(axes: Axes, workers: Sequence[int], low: float, high: float) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xticks(workers, map(str, workers))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("workers", fontsize=7)
    axes.set_ylabel("speed-up", fontsize=7)
    axes.set_xlim(workers[0] / _WIDER, workers[-1] * _WIDER)
    axes.set_ylim(low, high)


def _lines(axes: Axes, rows: pd.DataFrame, shown: Sequence[str], baselines: Sequence[str]) -> None:
    """Draw the ideal and the methods of a panel, with labels at the ends of the lines."""
    axes.axvspan(*VALIDATED_WORKERS, color="0.9", linewidth=0, zorder=0)
    ideal = rows.drop_duplicates("workers").sort_values("workers")
    axes.plot(ideal.workers, ideal.ideal, label="ideal", **_IDEAL)
    ends = [End("ideal", ideal.workers.iloc[-1], ideal.ideal.iloc[-1], _IDEAL["color"])]
    for method in shown:
        line = rows[rows.method == method].sort_values("workers")
        line = line[np.isfinite(line.over_fewest)]
        if line.empty:
            continue
        look = line_look(method, shown, baselines)
        axes.plot(line.workers, line.over_fewest, **look, **HOLLOW)
        ends.append(end_of(look, line.workers.iloc[-1], line.over_fewest.iloc[-1], baselines))
    write_labels(axes, ends)
