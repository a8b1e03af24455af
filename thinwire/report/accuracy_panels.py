"""Panels of lines of accuracy, one line for each method, with labels at the ends of the lines."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.axes import Axes

from thinwire.report import line_labels, method_looks, style
from thinwire.report.accuracy_points import heading, last, pareto
from thinwire.report.line_panels import end_of, layout, line_look
from thinwire.report.lines_that_stand_out import MOST_LINES, accurate
from thinwire.report.panels import finish, unique

_FRONT: dict[str, Any] = {"color": "0.1", "linewidth": 0.6, "linestyle": ":", "zorder": 3}
_LEAST_POINTS = 5.0  # percentage points below the lowest end that a panel shows
_WIDER = 1.15  # a logarithmic axis than its points, on each side
_NOT_GREY = "not grey: baselines and Pareto-optimal methods ({cost}, accuracy), {most} at most"
_COSTS = {"megabytes": "bytes", "train_seconds": "seconds"}


class Axis(NamedTuple):
    """The horizontal axis."""

    column: str
    label: str  # with the unit
    log: bool = False  # lines end at different places then, and their labels are above


def draw(
    panels: Sequence[pd.DataFrame],
    axis: Axis,
    stem: Path,
    notes: Sequence[str],
    baselines: Collection[str] = (),
    cost: str = "megabytes",
    front: bool = False,
    bands: bool = False,
) -> None:
    """Draw a panel for each data set, model, cluster and kind.

    Args:
        panels: the points of each, see `accuracy_points`.
        axis: the horizontal axis; values are positive if it is logarithmic.
        stem: the path of the files without an ending.
        notes: phrases under the figure.
        baselines: labels of methods with thick black lines.
        cost: the column that decides, with the accuracy, which lines of a crowded panel stand out.
        front: draw the Pareto front of the ends?
        bands: draw bands of one standard deviation?
    """
    methods = unique(pd.concat(panels).method)
    stand_out = [accurate(panel, cost, baselines) for panel in panels]
    looks = method_looks.looks(methods, baselines)
    figure, all_axes = layout([heading(panel) for panel in panels], methods, above=axis.log)
    unlabelled = 0
    for axes, panel, shown in zip(all_axes, panels, stand_out):
        _limit(axes, panel, axis)
        style.ticks(axes, axis.log)
        ends = []
        for method, line in panel.groupby("method", sort=False):
            look = line_look(str(method), looks, shown, baselines)
            axes.plot(line[axis.column], line.accuracy, **look)
            if bands and method in shown:
                edges = line.accuracy - line.sd, line.accuracy + line.sd
                axes.fill_between(line[axis.column], *edges, color=look["color"], alpha=0.12, linewidth=0)
            ends.append(end_of(look, line[axis.column].iloc[-1], line.accuracy.iloc[-1], baselines))
        if front:
            _front(axes, panel, axis.column)
        labels = (line_labels.above if axis.log else line_labels.beside)(axes, ends)
        unlabelled = max(unlabelled, len(ends) - len(labels))
        (evaluated_on,) = set(panel.evaluated_on)
        axes.set_ylabel(f"{evaluated_on.replace('_', '-')} accuracy, %", fontsize=7)
        axes.set_xlabel(axis.label, fontsize=7)
    every = ["lines: means over the seeds"]
    every += ["bands: ± one standard deviation"] if bands else []
    if any(len(shown) < panel.method.nunique() for shown, panel in zip(stand_out, panels)):
        every.append(_NOT_GREY.format(most=MOST_LINES, cost=_COSTS[cost]))
    if unlabelled:
        every.append(f"up to {unlabelled} grey lines of a panel have no room for a label")
    finish(figure, stem, "; ".join([*every, "vertical axes do not begin at 0", *notes]))


def _front(axes: Axes, panel: pd.DataFrame, cost: str) -> None:
    ends = last(panel)
    best = ends.loc[pareto(ends, cost)]
    axes.step(best[cost], best.accuracy, where="post", **_FRONT)


def _limit(axes: Axes, panel: pd.DataFrame, axis: Axis) -> None:
    """Show the accuracies at the end, and as much below them as tells how they were reached."""
    ends = last(panel).accuracy
    low = ends.min() - max(_LEAST_POINTS, ends.max() - ends.min())
    # At least half of all points are seen.
    low = max(min(low, panel.accuracy.median()), panel.accuracy.min())
    high = panel.accuracy.max()
    axes.set_ylim(low - 0.05 * (high - low) - 0.1, high + 0.08 * (high - low) + 0.1)
    seen = panel[axis.column][panel.accuracy >= low]
    if axis.log:
        axes.set_xscale("log")
        axes.set_xlim(seen.min() / _WIDER, seen.max() * _WIDER)
