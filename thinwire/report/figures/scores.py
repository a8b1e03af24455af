"""Figures of scores: over epochs, over time, and against bytes."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.text import Text

from thinwire.base.learning import LearningTask
from thinwire.report.figures import score_points, style
from thinwire.report.figures.lines import End, end_of, layout, line_look, write_labels
from thinwire.report.figures.lines import shown as shown_labels
from thinwire.report.figures.near_labels import Point, write_near
from thinwire.report.figures.score_points import MOST_LINES, good, heading, last, pareto
from thinwire.report.figures.style import finish, say
from thinwire.report.report_files import against_bytes, over_epochs, over_time
from thinwire.report.rows.quantities import preparation_note, with_megabytes

_FRONT: dict[str, Any] = {"color": "0.1", "linewidth": 0.6, "linestyle": ":", "zorder": 3}
# In margins of equivalence: a panel shows so much beyond the worst end, and so much around all that it shows.
_LEAST_MARGINS, _AROUND_MARGINS = 5 / 0.3, 1 / 3
_WIDER = 1.15  # a logarithmic axis than its points, to the left
_RIGHT = 0.2  # the share of a logarithmic axis that leaves room for labels
_MOST_LABELS = 16  # near the ends of the lines of a panel
_NOT_FAINT = "not faint: baselines and Pareto-optimal methods ({cost}, {score}), {most} at most"
_COSTS = {"megabytes": "bytes", "train_seconds": "seconds"}


class Axis(NamedTuple):
    """The horizontal axis."""

    column: str
    label: str  # with the unit
    log: bool = False  # lines end at different places then, and their labels are beside their ends


def draw(
    task: LearningTask,
    panels: Sequence[pd.DataFrame],
    axis: Axis,
    stem: Path,
    notes: Sequence[str],
    baselines: Collection[str],
    front: bool = False,
) -> None:
    """Draw a panel for each data set, model, cluster and kind; over epochs with bands of one deviation.

    Args:
        task: what the runs learn.
        panels: the points of each, see `score_points`.
        axis: the horizontal axis; values are positive if it is logarithmic.
        stem: the path of the files without an ending.
        notes: phrases under the figure.
        baselines: labels of methods with thick black lines.
        front: draw the Pareto front of the ends?
    """
    # Decides with the score which lines of a crowded panel stand out.
    cost = axis.column if axis.log else "megabytes"
    bands = not axis.log
    methods = list(pd.concat(panels).method.unique())
    stand_out = [good(panel, cost, baselines, task) for panel in panels]
    figure, all_axes = layout([heading(panel) for panel in panels], [] if axis.log else methods)
    unlabelled = 0
    for axes, panel, shown in zip(all_axes, panels, stand_out):
        _limit(axes, panel, axis, task)
        style.ticks(axes, axis.log)
        ends = []
        for method, line in panel.groupby("method", sort=False):
            look = line_look(str(method), shown, baselines)
            axes.plot(line[axis.column], line.score, **look)
            if bands and method in shown:
                edges = line.score - line.sd, line.score + line.sd
                axes.fill_between(line[axis.column], *edges, color=look["color"], alpha=0.12, linewidth=0)
            ends.append(end_of(look, line[axis.column].iloc[-1], line.score.iloc[-1], baselines))
        if front:
            at_the_end = last(panel)
            best = at_the_end.loc[pareto(at_the_end, axis.column, task)]
            axes.step(best[axis.column], best.score, where="post", **_FRONT)
        labels = _write_near(axes, panel, axis, ends) if axis.log else write_labels(axes, ends)
        unlabelled = max(unlabelled, len(ends) - len(labels))
        (evaluated_on,) = set(panel.evaluated_on)
        axes.set_ylabel(f"{evaluated_on.replace('_', '-')} {task.axis}", fontsize=7)
        axes.set_xlabel(axis.label, fontsize=7)
    every = ["lines: means over the seeds"]
    every += ["bands: ± one standard deviation"] if bands else []
    if any(len(shown) < panel.method.nunique() for shown, panel in zip(stand_out, panels)):
        every.append(_NOT_FAINT.format(most=MOST_LINES, cost=_COSTS[cost], score=task.score))
    if unlabelled:
        every.append(f"up to {unlabelled} faint lines of a panel have no room for a label")
    finish(figure, stem, "; ".join([*every, "vertical axes do not begin at 0", *notes]))


def _write_near(axes: Axes, panel: pd.DataFrame, axis: Axis, ends: Sequence[End]) -> list[Text]:
    """Write the labels near the ends of the lines; of many lines, only those that stand out have one."""
    if len(ends) > _MOST_LABELS:
        ends = [end for end in ends if end.marker]
    names = shown_labels([end.label for end in ends])
    points = [Point(names[end.label], end.x, end.y, end.colour, end.bold) for end in ends]
    lines = [line[[axis.column, "score"]].to_numpy(dtype=float) for _, line in panel.groupby("method")]
    return write_near(axes, points, lines)


def _limit(axes: Axes, panel: pd.DataFrame, axis: Axis, task: LearningTask) -> None:
    """Show the scores at the end, and as many worse ones as tell how they were reached."""
    gains, ends = task.sign * panel.score, task.sign * last(panel).score
    low = ends.min() - max(_LEAST_MARGINS * task.margin, ends.max() - ends.min())
    # At least half of all points are seen.
    low = max(min(low, gains.median()), gains.min())
    high, around = gains.max(), _AROUND_MARGINS * task.margin
    limits = low - 0.05 * (high - low) - around, high + 0.08 * (high - low) + around
    axes.set_ylim(*sorted(task.sign * limit for limit in limits))
    seen = panel[axis.column][gains >= low]
    if axis.log:
        axes.set_xscale("log")
        axes.set_xlim(seen.min() / _WIDER, seen.max() * (seen.max() / seen.min()) ** _RIGHT)


_BYTES_AXIS = Axis("megabytes", "payload pushed and pulled by a worker, MB", log=True)


def write_against_bytes(
    task: LearningTask, curves: pd.DataFrame, folder: Path, baselines: Collection[str] = ()
) -> None:
    """Draw a line for each method and the Pareto front of their ends; the axis of bytes is logarithmic.

    Args:
        task: what the runs learn.
        curves: one row for each evaluation of each run.
        folder: for the figure.
        baselines: labels of methods with thick black lines.
    """
    # Means over the repetitions at each epoch, because runs that adapt their traffic send different bytes.
    points = score_points.of_curves(with_megabytes(curves), "megabytes")
    stem = folder / against_bytes(task)
    # A single worker sends nothing, and a logarithmic axis has no zero.
    sent = points.means.megabytes > 0
    panels = score_points.panels(points.means[sent])
    if not panels:
        say(f"No run that is done has sent anything: there is no {task.score} to show against bytes.", stem)
        return
    notes = ["dotted: the Pareto front of the ends", *points.left_out, *preparation_note(curves)]
    if unsent := int((~sent).sum()):
        notes.append(score_points.left_out_phrase(unsent, "point", "before the first byte"))
    draw(task, panels, _BYTES_AXIS, stem, notes, baselines, front=True)


def write_over_epochs(
    task: LearningTask, curves: pd.DataFrame, folder: Path, baselines: Collection[str] = ()
) -> None:
    """Draw a line for each method, a panel for each data set, model, cluster and kind.

    Args:
        task: what the runs learn.
        curves: one row for each evaluation of each run.
        folder: for the figure.
        baselines: labels of methods with thick black lines.
    """
    points = score_points.of_curves(with_megabytes(curves), "megabytes")
    stem = folder / over_epochs(task)
    if points.means.empty:
        say(f"No run that is done has {task.score} to show over epochs.", stem)
        return
    panels = score_points.panels(points.means)
    notes = [*points.left_out, *preparation_note(curves)]
    draw(task, panels, Axis("epoch", "epoch"), stem, notes, baselines)


_TIME_AXIS = Axis("train_seconds", "training on the slowest worker, without evaluation, s", log=True)


def write_over_time(
    task: LearningTask, curves: pd.DataFrame, folder: Path, baselines: Collection[str] = ()
) -> None:
    """Draw a line for each method of the runs that have times; kinds have panels of their own.

    Args:
        task: what the runs learn.
        curves: one row for each evaluation of each run; `train_seconds` is missing where there is no time.
        folder: for the figure.
        baselines: labels of methods with thick black lines.
    """
    stem = folder / over_time(task)
    timed = curves[curves.train_seconds.notna()] if "train_seconds" in curves else curves[:0]
    if timed.empty or not (timed.status == "done").any():
        say("No run that is done has a time; the table of the suite says why.", stem)
        return
    points = score_points.of_curves(with_megabytes(timed), "train_seconds", "megabytes")
    panels = score_points.panels(points.means[points.means.train_seconds > 0])
    if not panels:
        say(f"No run that is done has {task.score} to show over time.", stem)
        return
    draw(task, panels, _TIME_AXIS, stem, points.left_out, baselines)
