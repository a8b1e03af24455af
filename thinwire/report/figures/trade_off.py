"""The figure `trade_off`: what each method loses in score, against the bytes that it saves."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.markers import CARETDOWN

from thinwire.base.learning import LearningTask
from thinwire.report.figures import lines, looks, style
from thinwire.report.figures.fitted_text import wrapped
from thinwire.report.figures.near_labels import Point, write_near
from thinwire.report.figures.score_points import heading
from thinwire.report.figures.style import finish, fix_layout, grid, say
from thinwire.report.report_files import TRADE_OFF, with_minus
from thinwire.report.rows.quantities import BLOCK

_HEIGHT_INCHES = 2.4
# Percent of bytes saved that have a tick. The axis is logarithmic in the bytes that are left.
_TICKS = (-1900, -900, -400, -100, 0, 50, 80, 90, 95, 98, 99, 99.5, 99.8, 99.9)
_AROUND = 0.1  # of an axis, on each side
_LEAST_MARGINS = 4.0  # that are seen below 0
_MOST_LOSSES = 2.5  # that are seen below 0, in those that a quarter of the methods surpass
_BAR: dict[str, Any] = {"linewidth": 0.9, "alpha": 0.55, "zorder": 2}
_CUT: dict[str, Any] = {"markersize": 5, "label": "_cut", "zorder": 3}


def shown(summary: pd.DataFrame) -> list[pd.DataFrame]:
    """For each data set and model, the rows on the most workers, with the column `saved` in percent.

    It is about the bytes between nodes, or the payload if there is one node. One pair is no comparison, so a
    difference without an interval is left out.
    """
    rows = summary[summary.workers == summary.groupby(["dataset", "model"]).workers.transform("max")]
    between, payload = rows.between_nodes_reduction_percent, rows.total_reduction_percent
    rows = rows.assign(
        saved=between.where(rows.nodes > 1, payload),
        gain_mean=rows.gain_mean.where(np.isfinite(rows.gain_low.astype(float))),
    )
    own = rows[np.isfinite(rows.saved.astype(float)) & (rows.saved < 100)]
    return [panel for _, panel in own.groupby(BLOCK, sort=False) if panel.gain_mean.notna().any()]


def write(task: LearningTask, summary: pd.DataFrame, folder: Path, baselines: Sequence[str]) -> None:
    """Draw a point for each method, with the interval of its difference in score to the baseline.

    Args:
        task: what the runs learn.
        summary: a row for each block and method, with its comparison.
        folder: for the figure.
        baselines: labels of methods that are black; the others are compared with the first.
    """
    panels = shown(summary)
    if not panels:
        say("No method that sends bytes can be compared with the baseline.", folder / TRADE_OFF)
        return
    figure, all_axes = grid(len(panels), 1, (style.COLUMN_INCHES, _HEIGHT_INCHES))
    for axes, panel in zip(all_axes, panels):
        axes.set_title(heading(panel), fontsize=7)
        where = "between nodes" if panel.nodes.max() > 1 else "of the payload"
        axes.set_xlabel(f"bytes {where} saved, %", fontsize=7)
        gain = wrapped(task.gain.format(against=baselines[0]), 0.8 * _HEIGHT_INCHES, 7)
        axes.set_ylabel(gain, fontsize=7)
        _scale(axes, panel, task)
    fix_layout(figure)
    said = [phrase for axes, panel in zip(all_axes, panels) for phrase in _points(axes, panel, baselines)]
    note = (
        "wanted: high, and far to the right; bars: 95 % intervals of paired differences; shaded: ± "
        f"{task.margin:g} {task.unit.name}"
    )
    finish(figure, folder / TRADE_OFF, "; ".join([note, *dict.fromkeys(said)]))


def _place(saved: Any) -> Any:
    """Where a saving lies on the axis."""
    return -np.log2(1 - np.asarray(saved, dtype=float) / 100)


def _scale(axes: Axes, panel: pd.DataFrame, task: LearningTask) -> None:
    """Set the limits and the ticks, so that one large loss does not hide the others."""
    places = _place(panel.saved)
    around = _AROUND * max(1.0, float(np.ptp(places)))
    axes.set_xlim(places.min() - around, places.max() + around)
    ticks = [tick for tick in _TICKS if places.min() - around <= _place(tick) <= places.max() + around]
    axes.set_xticks(_place(ticks), [with_minus(tick, int(tick % 1 > 0)) for tick in ticks])
    losses = -panel.gain_mean.clip(upper=0).dropna()
    most = max(_LEAST_MARGINS * task.margin, min(losses.max(), _MOST_LOSSES * losses.quantile(0.75, "lower")))
    high = max(_LEAST_MARGINS / 2 * task.margin, panel.gain_high.max())
    axes.set_ylim(-most - 0.15 * (most + high), high + 0.1 * (most + high))
    axes.axhspan(-task.margin, task.margin, color="0.9", linewidth=0, zorder=0)
    axes.axhline(0, color="0.1", linewidth=0.8, zorder=1)


def _points(axes: Axes, panel: pd.DataFrame, baselines: Sequence[str]) -> list[str]:
    """Draw the points of a panel; gives phrases on what lies below it."""
    low, high = axes.get_ylim()
    least = low + 0.04 * (high - low)
    names = lines.shown(list(panel.method))
    said, labelled, drawn = [], [], [np.array([(axes.get_xlim()[0], 0), (axes.get_xlim()[1], 0)])]
    for row in panel.assign(at=_place(panel.saved)).to_dict("records"):
        bold = row["method"] in baselines
        look, gain, label = looks.look(row["method"], bold), row["gain_mean"], names[row["method"]]
        if np.isnan(gain):
            if row["method"] != baselines[0]:
                continue
            gain = 0.0
        else:
            bar = np.clip([row["gain_low"], row["gain_high"]], low, high)
            axes.plot([row["at"]] * 2, bar, color=look.colour, label="_bar", **_BAR)
            drawn.append(np.column_stack([[row["at"]] * 2, bar]))
            if row["gain_low"] < low and gain >= least:
                axes.plot([row["at"]], [low], marker=CARETDOWN, color=look.colour, **_CUT)
                said.append("arrow heads: the interval goes on below")
        marker = look.marker
        if gain < least:
            label, gain, marker = f"{label} ({with_minus(gain, 1)})", least, "v"
            said.append("a number in brackets: the point lies below")
        axes.plot([row["at"]], [gain], marker=marker, color=look.colour, markersize=4.5, label=row["method"])
        labelled.append(Point(label, row["at"], gain, look.colour, bold))
    write_near(axes, labelled, drawn)
    return said
