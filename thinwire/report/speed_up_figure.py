"""The figure `speed_up_simulated`: how fast a step of each method is beside the better baseline."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from thinwire.report import fitted_text, style
from thinwire.report.panels import HOLLOW, finish, grid, legend, name_methods, panel, say, task_of, unique

NAME = "speed_up_simulated"
_MARKERS = "osD^vP"
_APART = 0.6  # of the distance between two methods
_COLOURS = ("#0173b2", "#de8f05", "#029e73", "#cc78bc", "#ca9161", "#56b4e9")


def write(rows: pd.DataFrame, folder: Path, baselines: Sequence[str]) -> None:
    """Draw a point for each method and cluster: a panel for each data set, model and profile.

    Points of runs with a process for each worker are full, and in panels of their own.
    """
    rows = rows[rows.speed_up.notna()]
    if rows.empty:
        say("No step of a method can be compared with that of a baseline.", folder / NAME)
        return
    rows = rows.assign(task=task_of(rows), place=rows.cluster.where(rows.cluster != "", "as it ran"))
    tasks, places, methods = unique(rows.task), unique(rows.place), unique(rows.method)
    columns = min(2, len(tasks))
    lines = -(-len(tasks) // columns)
    inches = (style.COLUMN_INCHES, 0.7 + 0.2 * len(methods))
    figure, all_axes = grid(lines, columns, inches, sharey=True, sharex=True)
    looks: dict[str, dict[str, Any]] = {
        place: {"marker": _MARKERS[i % len(_MARKERS)], "color": _COLOURS[i % len(_COLOURS)]}
        for i, place in enumerate(places)
    }
    for axes in all_axes.flat[len(tasks) :]:
        axes.set_visible(False)
    for axes, task in zip(all_axes.flat, tasks):
        of_task = panel(rows, task=task)
        axes.axvline(1, color="0.1", linewidth=2)
        for number, (place, look) in enumerate(looks.items()):
            points = panel(of_task, place=place)
            hollow = HOLLOW if (points.kind == "simulated").all() else {}
            # Points of one method lie below each other, so that none hides another.
            beside = _APART * (number - (len(looks) - 1) / 2) / len(looks)
            at = [methods.index(method) + beside for method in points.method]
            axes.plot(points.speed_up, at, linestyle="", markersize=5, **look, **hollow)
        _scale(axes)
        name_methods(axes, methods, baselines)
        workers = "/".join(map(str, unique(of_task.workers)))
        axes.set_title(f"{task}, {workers} workers", fontsize=7)
        axes.tick_params(labelbottom=True)
    hollow = HOLLOW if (rows.kind == "simulated").all() else {}
    legend(figure, [Line2D([], [], linestyle="", **look, **hollow) for look in looks.values()], places)
    over = f"speed-up over the better of {', '.join(name for name in baselines if name in methods)}"
    figure.supxlabel(fitted_text.wrapped(over, figure.get_figwidth(), 7), fontsize=7)
    finish(figure, folder / NAME, "hollow: simulated; full: measured or emulated")


def _scale(axes: Axes) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
