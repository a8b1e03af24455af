"""Figures of comparisons.

`paired_differences` is a forest plot of the differences in score to the baseline, in pairs of runs.
`performance_profile` shows in which share of cells a method needs few bytes to the target (Dolan and Moré,
"Benchmarking optimization software with performance profiles", 2002).
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thinwire.base.learning import LearningTask
from thinwire.report.figures import style
from thinwire.report.figures.lines import end_of, layout, line_look, write_labels
from thinwire.report.figures.score_points import KINDS, cheap, heading
from thinwire.report.figures.style import finish, grid, name_methods, say
from thinwire.report.report_files import FEWEST_CELLS, PAIRED_DIFFERENCES, PROFILE, with_minus
from thinwire.report.rows.quantities import BLOCK, CELL
from thinwire.report.rows.to_target import ratios

# With markers that differ in grey, too.
_VERDICTS: dict[str, dict[str, Any]] = {
    "different": {"marker": "D", "color": "#a33b00", "markersize": 4},
    "no_effect": {"marker": "s", "color": "#0173b2", "markersize": 4},
    "inconclusive": {"marker": "o", "color": "0.35", "markersize": 4, "markerfacecolor": "white"},
}
_BESIDE: dict[str, Any] = {"va": "center", "fontsize": 6, "color": "0.25"}
_OPAQUE = {"facecolor": "white", "linewidth": 0, "pad": 0.6}
_COLUMNS = (1.04, 1.2)  # where n and the verdict stand, in widths of the axes
_LEAST_MARGINS = 2.0  # that are seen on each side of 0
# That are seen, in medians of the reaches: a reach is how far an interval goes from 0.
_MOST_REACHES = 3.0


def write_paired_differences(
    task: LearningTask, comparisons: pd.DataFrame, folder: Path, baselines: Sequence[str] = ()
) -> None:
    """Draw the mean difference and its 95 % interval for each method, over the band of equivalence.

    Args:
        task: what the runs learn.
        comparisons: one row for each cell, method and kind.
        folder: for the figure.
        baselines: labels of methods that are bold.
    """
    if comparisons.empty:
        say("No method can be compared with the baseline in pairs of runs.", folder / PAIRED_DIFFERENCES)
        return
    of_panels = [panel for _, panel in comparisons.groupby(BLOCK, sort=False)]
    most = max(len(panel) for panel in of_panels)
    inches = (style.COLUMN_INCHES, 0.65 + 0.15 * most)
    figure, all_axes = grid(len(of_panels), min(2, len(of_panels)), inches)
    for axes, panel in zip(all_axes, of_panels):
        _intervals(axes, panel, task)
        name_methods(axes, list(panel.method), baselines)
        axes.set_title(heading(panel), fontsize=7, pad=12)
        against = ", ".join(panel.against.unique())
        axes.set_xlabel(task.gain.format(against=against), fontsize=7)
    margins = ", ".join(f"{margin:g}" for margin in comparisons.margin.unique())
    note = (
        "mean of the paired differences with a 95 % t interval; shaded: ± "
        f"{margins} {task.unit.name}, within which {task.scores} are called equal; "
        "n: pairs; diamond: different, square: no effect of this size, hollow: inconclusive; arrow: the "
        "interval goes on; number beside an arrow: its mean, which lies there"
    )
    finish(figure, folder / PAIRED_DIFFERENCES, note)


def _intervals(axes: Axes, panel: pd.DataFrame, task: LearningTask) -> None:
    margin = panel.margin.max()
    axes.axvspan(-margin, margin, color="0.88", linewidth=0, zorder=0)
    axes.axvline(0, color="0.1", linewidth=0.8)
    axes.grid(False, axis="y")
    limit = _limit(panel, margin)
    axes.set_xlim(-1.06 * limit, 1.06 * limit)
    side = axes.get_yaxis_transform()
    for place, row in enumerate(panel.to_dict("records")):
        mean, *interval = (row[f"gain_{name}"] for name in ("mean", "low", "high"))
        if np.isfinite([mean, *interval]).all():  # one pair is no comparison, and has no interval
            look = _VERDICTS[row["verdict"]]
            axes.plot(interval, [place, place], color=look["color"], linewidth=1.2)
            _cut(axes, place, interval, limit, look["color"])
            if abs(mean) <= limit:
                axes.plot([mean], [place], linestyle="", markeredgewidth=0.9, **look)
            else:
                at = np.sign(mean) * 0.9 * limit
                axes.text(
                    at,
                    place,
                    with_minus(mean, task.unit.digits - 1),
                    ha="left" if mean < 0 else "right",
                    bbox=_OPAQUE,
                    **_BESIDE,
                )
        texts = (f"{row['n']:.0f}", row["verdict"].replace("_", " "))
        for text, at in zip(texts, _COLUMNS):
            axes.text(at, place, text, transform=side, **_BESIDE)
    for text, at in zip(("n", "verdict"), _COLUMNS):
        axes.text(at, -0.75, text, transform=side, va="bottom", fontsize=6, style="italic", color="0.25")


def _limit(panel: pd.DataFrame, margin: float) -> float:
    """How far the axis goes on both sides, so that one wide interval does not hide what the others say."""
    bounds = panel[["gain_low", "gain_high"]].abs()
    reaches = bounds.where(np.isfinite(bounds)).max(axis=1).dropna()
    if reaches.empty:
        return _LEAST_MARGINS * margin
    return max(_LEAST_MARGINS * margin, min(reaches.max(), _MOST_REACHES * reaches.median()))


def _cut(axes: Axes, place: int, interval: list[float], limit: float, colour: str) -> None:
    """Draw an arrow at an end of the axis beyond which the interval goes on."""
    for bound, sign, marker in zip(interval, (-1, 1), "<>"):
        if sign * bound > limit:
            axes.plot([sign * limit], [place], marker=marker, markersize=4, color=colour, label="_cut")


_LEAST_AXIS = 4.0  # ratio up to which the axis reaches at least


def write_performance_profile(
    task: LearningTask, to_target: pd.DataFrame, folder: Path, baselines: Collection[str] = ()
) -> None:
    """Draw a line for each method, a panel for each kind that has enough cells.

    Args:
        task: what the runs learn.
        to_target: one row for each cell, method, kind and target; a miss has infinitely many bytes.
        folder: for the figure.
        baselines: labels of methods with thick black lines.
    """
    kinds = list(to_target.kind.unique()) if len(to_target) else []
    profiles = {kind: profile(to_target[to_target.kind == kind], task) for kind in kinds}
    profiles = {kind: found for kind, found in profiles.items() if len(found) >= FEWEST_CELLS}
    if not profiles:
        say(
            f"A performance profile needs {FEWEST_CELLS} cells in which the target is reached.",
            folder / PROFILE,
        )
        return
    titles = [f"{len(found)} cells, {KINDS.get(kind, kind)}" for kind, found in profiles.items()]
    figure, all_axes = layout(titles, list(to_target.method.unique()))
    for axes, found in zip(all_axes, profiles.values()):
        _lines(axes, found, baselines)
    note = (
        "bytes: payload pushed and pulled until the first evaluation that reaches the hardest target of the "
        "cell, median over the runs; a miss needs infinitely many; cells in which nobody reaches it, or the "
        "method has no run, are left out"
    )
    finish(figure, folder / PROFILE, note)


def profile(to_target: pd.DataFrame, task: LearningTask) -> pd.DataFrame:
    """The ratio of each method's bytes to the fewest in the same cell: rows are cells, columns are methods.

    It is for the hardest target of a cell. It is infinite where the method misses that, and missing where the
    method has no run. Cells in which nobody reaches the target have no row.
    """
    targets = to_target.groupby(CELL).target_score
    hardest = targets.transform("max" if task.higher_is_better else "min")
    rows = to_target[to_target.target_score == hardest].drop_duplicates([*CELL, "method"])
    needed = rows.pivot(index=CELL, columns="method", values="payload_bytes_median")
    needed = needed.reindex(columns=to_target.method.unique())
    reached = np.isfinite(needed.to_numpy()).any(axis=1)
    return ratios(needed[reached]).dropna(axis=1, how="all")


def _lines(axes: Axes, found: pd.DataFrame, baselines: Collection[str]) -> None:
    finite = found.to_numpy()[np.isfinite(found.to_numpy())]
    most = max(_LEAST_AXIS, finite.max()) * 1.1
    stand_out = cheap(found, most, baselines)
    ends = []
    for method in found:
        reached = np.sort(found[method][np.isfinite(found[method])])
        percent = 100 * np.arange(len(reached) + 1) / found[method].count()
        look = line_look(str(method), stand_out, baselines)
        axes.step([1, *reached, most], [*percent, percent[-1]], where="post", **look)
        ends.append(end_of(look, most, percent[-1], baselines))
    axes.set_xlim(1, most)
    axes.set_ylim(-2, 102)
    style.ticks(axes, log=True)
    axes.set_xlabel("bytes to the target over the fewest of any method", fontsize=7)
    axes.set_ylabel("share of cells, %", fontsize=7)
    write_labels(axes, ends)
