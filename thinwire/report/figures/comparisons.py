"""Figures of differences in score to the baseline, in pairs of runs.

`paired_differences` is a forest plot of them, and `trade_off` shows them over the bytes that a method saves.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.markers import CARETDOWN
from matplotlib.typing import ColorType
from numpy.typing import ArrayLike, NDArray

from thinwire.base.learning import LearningTask
from thinwire.report.figures import style
from thinwire.report.figures.labels import Label, without_middle, wrapped, write_near
from thinwire.report.figures.looks import look as look_of
from thinwire.report.report_files import PAIRED_DIFFERENCES, TRADE_OFF, with_minus
from thinwire.report.rows.quantities import BLOCK

# With markers that differ in grey, too.
_VERDICTS: dict[str, style.LineLook] = {
    "different": {"marker": "D", "color": "#a33b00", "markersize": 4},
    "no_effect": {"marker": "s", "color": "#0173b2", "markersize": 4},
    "inconclusive": {"marker": "o", "color": "0.35", "markersize": 4, "markerfacecolor": "white"},
}
_COLUMNS = (1.04, 1.2)  # where n and the verdict stand, in widths of the axes
_LEAST_MARGINS = 2.0  # that are seen on each side of 0
# That are seen, in medians of the reaches: a reach is how far an interval goes from 0.
_MOST_REACHES = 3.0


def write_paired_differences(
    task: LearningTask, comparisons: pd.DataFrame, folder: Path, baselines: Sequence[str] = ()
) -> None:
    """Draw the mean difference and its 95 % interval for each method, over the band of equivalence.

    `comparisons` has a row for each setting, method and kind. `baselines` are bold.
    """
    if comparisons.empty:
        style.say(
            "No method can be compared with the baseline in pairs of runs.", folder / PAIRED_DIFFERENCES
        )
        return
    of_panels = [panel for _, panel in comparisons.groupby(BLOCK, sort=False)]
    most = max(len(panel) for panel in of_panels)
    inches = (style.COLUMN_INCHES, 0.65 + 0.15 * most)
    figure, all_axes = style.grid(len(of_panels), min(2, len(of_panels)), inches)
    for axes, panel in zip(all_axes, of_panels):
        _intervals(axes, panel, task)
        style.name_methods(axes, list(panel.method), baselines)
        axes.set_title(style.heading(panel), fontsize=7, pad=12)
        against = ", ".join(panel.against.unique())
        axes.set_xlabel(task.gain.format(against=against), fontsize=7)
    margins = ", ".join(f"{margin:g}" for margin in comparisons.margin.unique())
    note = (
        "mean of the paired differences with a 95 % t interval; shaded: less than "
        f"{margins} {task.unit.name}; n: pairs; diamond: different, square: no effect of this size, hollow: "
        "inconclusive; arrow: the interval goes on; number beside an arrow: its mean, which lies there"
    )
    style.finish(figure, folder / PAIRED_DIFFERENCES, note)


def _intervals(axes: Axes, panel: pd.DataFrame, task: LearningTask) -> None:
    margin = panel.margin.max()
    axes.axvspan(-margin, margin, color="0.88", linewidth=0, zorder=0)
    axes.axvline(0, color="0.1", linewidth=0.8)
    axes.grid(False, axis="y")
    limit = _limit(panel, margin)
    axes.set_xlim(-1.06 * limit, 1.06 * limit)
    for place, row in enumerate(panel.to_dict("records")):
        mean, *interval = (row[f"gain_{name}"] for name in ("mean", "low", "high"))
        if np.isfinite([mean, *interval]).all():  # one pair is no comparison, and has no interval
            look = _VERDICTS[row["verdict"]]
            axes.plot(interval, [place, place], color=look["color"], linewidth=1.2)
            _cut(axes, place, interval, limit, look["color"])
            if abs(mean) <= limit:
                axes.plot([mean], [place], linestyle="", markeredgewidth=0.9, **look)
            else:
                axes.text(
                    np.sign(mean) * 0.9 * limit,
                    place,
                    with_minus(mean, task.unit.digits - 1),
                    ha="left" if mean < 0 else "right",
                    va="center",
                    fontsize=6,
                    color="0.25",
                    bbox={"facecolor": "white", "linewidth": 0, "pad": 0.6},
                )
        for text, at in zip((f"{row['n']:.0f}", row["verdict"].replace("_", " ")), _COLUMNS):
            style.write_beside_row(axes, at, place, text)
    side = axes.get_yaxis_transform()
    for text, at in zip(("n", "verdict"), _COLUMNS):
        axes.text(at, -0.75, text, transform=side, va="bottom", fontsize=6, style="italic", color="0.25")


def _limit(panel: pd.DataFrame, margin: float) -> float:
    """How far the axis goes on both sides, so that one wide interval does not hide what the others say."""
    bounds = panel[["gain_low", "gain_high"]].abs()
    reaches = bounds.where(np.isfinite(bounds)).max(axis=1).dropna()
    if reaches.empty:
        return _LEAST_MARGINS * margin
    return max(_LEAST_MARGINS * margin, min(reaches.max(), _MOST_REACHES * reaches.median()))


def _cut(axes: Axes, place: int, interval: list[float], limit: float, colour: ColorType) -> None:
    """Draw an arrow at an end of the axis beyond which the interval goes on."""
    for bound, sign, marker in zip(interval, (-1, 1), "<>"):
        if sign * bound > limit:
            axes.plot([sign * limit], [place], marker=marker, markersize=4, color=colour, label="_cut")


_HEIGHT_INCHES = 2.4
# Percent of bytes saved that have a tick. The axis is logarithmic in the bytes that are left.
_TICKS = (-1900, -900, -400, -100, 0, 50, 80, 90, 95, 98, 99, 99.5, 99.8, 99.9)
_AROUND = 0.1  # of an axis, on each side
_LEAST_MARGINS_BELOW = 4.0  # that are seen below 0
_MOST_LOSSES = 2.5  # that are seen below 0, in those that a quarter of the methods surpass


def panels_of_trade_off(summary: pd.DataFrame) -> list[pd.DataFrame]:
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


def write_trade_off(
    task: LearningTask, summary: pd.DataFrame, folder: Path, baselines: Sequence[str]
) -> None:
    """Draw a point for each method, with the interval of its difference in score to the baseline.

    `summary` has a row for each block and method, with its comparison. `baselines` are black; the others are
    compared with the first.
    """
    panels = panels_of_trade_off(summary)
    if not panels:
        style.say("No method that sends bytes can be compared with the baseline.", folder / TRADE_OFF)
        return
    figure, all_axes = style.grid(len(panels), 1, (style.COLUMN_INCHES, _HEIGHT_INCHES))
    for axes, panel in zip(all_axes, panels):
        axes.set_title(style.heading(panel), fontsize=7)
        where = "between nodes" if panel.nodes.max() > 1 else "of the payload"
        axes.set_xlabel(f"bytes {where} saved, %", fontsize=7)
        gain = wrapped(task.gain.format(against=baselines[0]), 0.8 * _HEIGHT_INCHES, 7)
        axes.set_ylabel(gain, fontsize=7)
        _scale(axes, panel, task)
    style.fix_layout(figure)
    said = [phrase for axes, panel in zip(all_axes, panels) for phrase in _points(axes, panel, baselines)]
    note = (
        "wanted: high, and far to the right; bars: 95 % intervals of paired differences; shaded: ± "
        f"{task.margin:g} {task.unit.name}"
    )
    style.finish(figure, folder / TRADE_OFF, "; ".join([note, *dict.fromkeys(said)]))


def _place(saved: ArrayLike) -> NDArray[np.float64]:
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
    most = max(
        _LEAST_MARGINS_BELOW * task.margin, min(losses.max(), _MOST_LOSSES * losses.quantile(0.75, "lower"))
    )
    high = max(_LEAST_MARGINS_BELOW / 2 * task.margin, panel.gain_high.max())
    axes.set_ylim(-most - 0.15 * (most + high), high + 0.1 * (most + high))
    axes.axhspan(-task.margin, task.margin, color="0.9", linewidth=0, zorder=0)
    axes.axhline(0, color="0.1", linewidth=0.8, zorder=1)


def _points(axes: Axes, panel: pd.DataFrame, baselines: Sequence[str]) -> list[str]:
    """Draw the points of a panel; gives phrases on what lies below it."""
    low, high = axes.get_ylim()
    least = low + 0.04 * (high - low)
    names = without_middle(list(panel.method))
    said, labelled, drawn = [], [], [np.array([(axes.get_xlim()[0], 0), (axes.get_xlim()[1], 0)])]
    for row in panel.assign(at=_place(panel.saved)).to_dict("records"):
        bold = row["method"] in baselines
        look, gain, label = look_of(row["method"], bold), row["gain_mean"], names[row["method"]]
        if np.isnan(gain):
            if row["method"] != baselines[0]:
                continue
            gain = 0.0
        else:
            at, bar = [row["at"]] * 2, np.clip([row["gain_low"], row["gain_high"]], low, high)
            axes.plot(at, bar, color=look.colour, label="_bar", linewidth=0.9, alpha=0.55, zorder=2)
            drawn.append(np.column_stack([at, bar]))
            if row["gain_low"] < low and gain >= least:
                axes.plot(
                    at[:1], [low], marker=CARETDOWN, color=look.colour, label="_cut", markersize=5, zorder=3
                )
                said.append("arrow heads: the interval goes on below")
        marker = look.marker
        if gain < least:
            label, gain, marker = f"{label} ({with_minus(gain, 1)})", least, "v"
            said.append("a number in brackets: the point lies below")
        axes.plot([row["at"]], [gain], marker=marker, color=look.colour, markersize=4.5, label=row["method"])
        labelled.append(Label(label, row["at"], gain, look.colour, bold))
    write_near(axes, labelled, drawn)
    return said
