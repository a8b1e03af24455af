"""Panels of lines of accuracy, one line for each method, with labels at the ends of the lines."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from thinwire.report import line_labels, style
from thinwire.report.accuracy_points import heading, last, pareto, strong
from thinwire.report.line_labels import End
from thinwire.report.panels import finish, unique

_LEFT, _RIGHT, _BOTTOM, _TOP, _HEIGHT = (
    0.48,
    0.04,
    0.42,
    0.2,
    1.75,
)  # inches around and of the axes of a panel
_WEAK = {"color": "0.62", "linewidth": 0.7}
_WEAK_LABEL = "0.4"
_FRONT: dict[str, Any] = {"color": "0.1", "linewidth": 0.6, "linestyle": ":", "zorder": 3}
_LEAST_POINTS = 5.0  # percentage points below the lowest end that a panel shows
_WIDER = 1.15  # a logarithmic axis than its points, on each side
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
    stand_out = [strong(panel, cost, baselines) for panel in panels]
    looks = style.looks(
        [m for m in unique(pd.concat(panels).method) if m in set().union(*stand_out)], baselines
    )
    figure, all_axes, extra = _layout(panels, axis)
    for axes, panel, shown in zip(all_axes, panels, stand_out):
        _lines(axes, panel, axis.column, shown, looks, baselines, bands)
        _limit(axes, panel, axis)
        style.ticks(axes, axis.log)
        ends = last(panel)
        if front:
            best = ends.loc[pareto(ends, axis.column)]
            axes.step(best[axis.column], best.accuracy, where="post", **_FRONT)
        _label(axes, ends, axis, shown, looks, baselines)
        (evaluated_on,) = set(panel.evaluated_on)
        axes.set_ylabel(f"{evaluated_on.replace('_', '-')} accuracy, %", fontsize=7)
        axes.set_xlabel(axis.label, fontsize=7)
        box = axes.get_position()
        left = -_LEFT / (box.width * figure.get_figwidth())
        axes.set_title(heading(panel), fontsize=7, loc="left", x=left, y=1 + extra / _HEIGHT, pad=3)
    crowded = any(len(shown) < panel.method.nunique() for shown, panel in zip(stand_out, panels))
    every = ["lines: means over the seeds"]
    every += ["bands: ± one standard deviation"] if bands else []
    every += (
        [f"grey: neither a baseline nor Pareto-optimal in {_COSTS[cost]} and accuracy"] if crowded else []
    )
    finish(figure, stem, "; ".join([*every, "vertical axes do not begin at 0", *notes]))


def _layout(panels: Sequence[pd.DataFrame], axis: Axis) -> tuple[Figure, list[Axes], float]:
    """The figure, the axes of each panel, and the inches above them for labels."""
    methods = unique(pd.concat(panels).method)
    above, right = line_labels.room_above(methods) if axis.log else (0.06, line_labels.room_beside(methods))
    inches = style.COLUMN_INCHES, _BOTTOM + _HEIGHT + above + _TOP
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    width, height = columns * inches[0], rows * inches[1]
    figure = plt.figure(figsize=(width, height))
    made = []
    for number in range(len(panels)):
        row, column = divmod(number, columns)
        left, bottom = column * inches[0] + _LEFT, height - (row + 1) * inches[1] + _BOTTOM
        own = inches[0] - _LEFT - right - _RIGHT
        made.append(figure.add_axes((left / width, bottom / height, own / width, _HEIGHT / height)))
    return figure, made, above


def _lines(
    axes: Axes,
    panel: pd.DataFrame,
    x: str,
    stand_out: Sequence[str],
    looks: dict[str, Any],
    baselines: Collection[str],
    bands: bool,
) -> None:
    for method, line in panel.groupby("method", sort=False):
        how: dict[str, Any] = {"label": method, "zorder": 1.2, **_WEAK}
        if method in stand_out:
            how |= {
                "color": looks["palette"][method],
                "marker": looks["markers"][method],
                "markersize": 2.5,
                "dashes": looks["dashes"][method] or (None, None),
                "linewidth": looks["sizes"][method],
                # A thin line that coincides with a thick one is seen on top of it.
                "zorder": 1.5 if method in baselines else 2,
            }
            if bands:
                edges = line.accuracy - line.sd, line.accuracy + line.sd
                axes.fill_between(line[x], *edges, color=how["color"], alpha=0.12, linewidth=0)
        axes.plot(line[x], line.accuracy, **how)


def _limit(axes: Axes, panel: pd.DataFrame, axis: Axis) -> None:
    """Show the accuracies at the end, and as much below them as tells how they were reached."""
    ends = last(panel).accuracy
    low = ends.min() - max(_LEAST_POINTS, ends.max() - ends.min())
    low, high = max(low, panel.accuracy.min()), panel.accuracy.max()
    axes.set_ylim(low - 0.05 * (high - low) - 0.1, high + 0.08 * (high - low) + 0.1)
    seen = panel[axis.column][panel.accuracy >= low]
    if axis.log:
        axes.set_xscale("log")
        axes.set_xlim(seen.min() / _WIDER, seen.max() * _WIDER)


def _label(
    axes: Axes,
    ends: pd.DataFrame,
    axis: Axis,
    stand_out: Sequence[str],
    looks: dict[str, Any],
    baselines: Collection[str],
) -> None:
    made = [
        End(
            str(method),
            row[axis.column],
            row.accuracy,
            looks["palette"][method] if method in stand_out else _WEAK_LABEL,
            method in baselines,
        )
        for method, row in ends.iterrows()
    ]
    write = line_labels.above if axis.log else line_labels.beside
    write(axes, made)
