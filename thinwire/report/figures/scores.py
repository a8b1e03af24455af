"""Figures of scores: over epochs, over time, and against bytes."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.text import Text

from thinwire.base.learning import LearningTask
from thinwire.report import report_files
from thinwire.report.figures import style
from thinwire.report.figures.labels import Label, without_middle, write_beside, write_near
from thinwire.report.figures.looks import MOST_LINES, end_of, layout, line_look, with_baselines
from thinwire.report.rows.quantities import BLOCK, preparation_note, with_megabytes

# In margins of equivalence: a panel shows so much beyond the worst end, and so much around all that it shows.
_LEAST_MARGINS, _AROUND_MARGINS = 5 / 0.3, 1 / 3
_WIDER = 1.15  # a logarithmic axis than its points, to the left
_RIGHT = 0.2  # the share of a logarithmic axis that leaves room for labels
_MOST_LABELS = 12  # near the ends of the lines of a panel
_NOT_FAINT = "not faint: baselines and Pareto-optimal methods ({cost}, {score}), {most} at most"


class Axis(NamedTuple):
    """The horizontal axis of a figure. On a logarithmic one, labels are near the ends of the lines."""

    name: str  # of the figure, without the metric
    column: str
    label: str  # with the unit
    nothing: str  # what the figure says if it is empty
    log: bool = True
    cost: str = "megabytes"  # the column that decides with the score which lines of a crowded panel stand out


EPOCHS = Axis(
    report_files.OVER_EPOCHS,
    "epoch",
    "epoch",
    "No run that is done has {score} to show over epochs.",
    log=False,
)
BYTES = Axis(
    report_files.AGAINST_BYTES,
    "megabytes",
    "payload pushed and pulled by a worker, MB",
    "No run that is done has sent anything: there is no {score} to show against bytes.",
)
TIME = Axis(
    report_files.OVER_TIME,
    "train_seconds",
    "training on the slowest worker, without evaluation, s",
    "No run that is done has {score} to show over time.",
    cost="train_seconds",
)
_COSTS = {"megabytes": "bytes", "train_seconds": "seconds"}


def write(
    axis: Axis, task: LearningTask, curves: pd.DataFrame, folder: Path, baselines: Collection[str] = ()
) -> None:
    """Draw a line for each method, in a panel for each data set, model, cluster and kind.

    Lines are means over the repetitions at each epoch. Against bytes, the ends have their Pareto front.

    Args:
        axis: `EPOCHS`, `BYTES`, or `TIME` for the runs that have one.
        task: what the runs learn.
        curves: one row for each evaluation of each run; `train_seconds` may be missing.
        folder: for the figure.
        baselines: labels of methods with thick black lines.
    """
    stem = folder / report_files.of_scores(task, axis.name)
    notes = ["dotted: the Pareto front of the ends"] if axis is BYTES else []
    prepared = [] if axis is TIME else preparation_note(curves)
    if axis is TIME:
        curves = curves[curves.train_seconds.notna()] if "train_seconds" in curves else curves[:0]
        if not (curves.status == "done").any():
            style.say("No run that is done has a time; the table of the suite says why.", stem)
            return
    means, left_out = _means(with_megabytes(curves), axis.cost)
    # A single worker sends nothing, and a logarithmic axis has no zero.
    shown = means[means[axis.column] > 0] if axis.log else means
    if shown.empty:
        style.say(axis.nothing.format(score=task.score), stem)
        return
    notes += [*left_out, *prepared]
    if axis is BYTES and len(shown) < len(means):
        notes.append(_left_out(len(means) - len(shown), "point", "before the first byte"))
    _draw(task, _panels(shown), axis, stem, notes, baselines)


def _means(curves: pd.DataFrame, cost: str) -> tuple[pd.DataFrame, list[str]]:
    """For each panel, method and epoch the means of score, bytes and cost, and the `sd`; what is left out."""
    # If some runs ended early, a line would be a mean over fewer seeds from there on.
    ended = curves.status == "done"
    left_out = []
    if lost := curves[~ended].drop_duplicates([*BLOCK, "method", "repetition"]).shape[0]:
        left_out.append(_left_out(lost, "run", "that did not end"))
    curves = curves[ended]
    needed = list(dict.fromkeys(["score", "megabytes", cost]))
    finite = np.isfinite(curves[needed].astype(float)).all(axis=1)
    if lost := int((~finite).sum()):
        left_out.append(_left_out(lost, "evaluation", "without a number"))
    groups = curves[finite].groupby([*BLOCK, "method", "epoch", "evaluated_on"], sort=False)
    return groups[needed].mean().assign(sd=groups.score.std(ddof=1)).reset_index(), left_out


def _left_out(count: int, noun: str, which: str) -> str:
    things, are = (noun, "is") if count == 1 else (f"{noun}s", "are")
    return f"{count} {things} {which} {are} left out"


def _panels(means: pd.DataFrame) -> list[pd.DataFrame]:
    """The points of each panel: data sets and models in their order, then by the number of workers."""
    task = means.groupby(["dataset", "model"], sort=False).ngroup()
    ordered = means.assign(task=task).sort_values(["task", "workers", "nodes", "kind"], kind="stable")
    return [panel for _, panel in ordered.groupby(BLOCK, sort=False)]


def _draw(
    task: LearningTask,
    panels: Sequence[pd.DataFrame],
    axis: Axis,
    stem: Path,
    notes: Sequence[str],
    baselines: Collection[str],
) -> None:
    """Draw these panels; over epochs with bands of one deviation."""
    bands = not axis.log
    methods = list(pd.concat(panels).method.unique())
    stand_out = [_good(panel, axis.cost, baselines, task) for panel in panels]
    figure, all_axes = layout([style.heading(panel) for panel in panels], [] if axis.log else methods)
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
        if axis is BYTES:
            at_the_end = _last(panel)
            best = at_the_end.loc[pareto(at_the_end, axis.column, task)]
            axes.step(
                best[axis.column],
                best.score,
                where="post",
                color="0.1",
                linewidth=0.6,
                linestyle=":",
                zorder=3,
            )
        labels = _write_near(axes, panel, axis, ends) if axis.log else write_beside(axes, ends)
        unlabelled = max(unlabelled, len(ends) - len(labels))
        (evaluated_on,) = set(panel.evaluated_on)
        axes.set_ylabel(f"{evaluated_on.replace('_', '-')} {task.axis}", fontsize=7)
        axes.set_xlabel(axis.label, fontsize=7)
    every = ["lines: means over the seeds"]
    every += ["bands: ± one standard deviation"] if bands else []
    if any(len(shown) < panel.method.nunique() for shown, panel in zip(stand_out, panels)):
        every.append(_NOT_FAINT.format(most=MOST_LINES, cost=_COSTS[axis.cost], score=task.score))
    if unlabelled:
        every.append(f"up to {unlabelled} faint lines of a panel have no label")
    style.finish(figure, stem, "; ".join([*every, "vertical axes do not begin at 0", *notes]))


def _write_near(axes: Axes, panel: pd.DataFrame, axis: Axis, ends: Sequence[Label]) -> list[Text]:
    """Write the labels near the ends of the lines; of many lines, only those that stand out have one."""
    if len(ends) > _MOST_LABELS:
        ends = [end for end in ends if end.marker]
    names = without_middle([end.text for end in ends])
    points = [end._replace(text=names[end.text]) for end in ends]
    lines = [line[[axis.column, "score"]].to_numpy(dtype=float) for _, line in panel.groupby("method")]
    return write_near(axes, points, lines)


def _limit(axes: Axes, panel: pd.DataFrame, axis: Axis, task: LearningTask) -> None:
    """Show the scores at the end, and as many worse ones as tell how they were reached."""
    gains, ends = task.sign * panel.score, task.sign * _last(panel).score
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


def _good(panel: pd.DataFrame, cost: str, baselines: Collection[str], task: LearningTask) -> Sequence[str]:
    """All methods of a panel of scores, or in a crowded one, the baselines and the Pareto-optimal.

    If there are more than `MOST_LINES` of them, those with the best scores stand out.
    """
    ends = _last(panel)
    if len(ends) <= MOST_LINES:
        return list(ends.index)
    best = ends.loc[pareto(ends, cost, task)]
    best = best.sort_values("score", ascending=not task.higher_is_better, kind="stable")
    return with_baselines(ends.index, best.index, baselines)


def _last(panel: pd.DataFrame) -> pd.DataFrame:
    """The last point of each method, with the method as index."""
    return panel.sort_values("epoch", kind="stable").groupby("method", sort=False).tail(1).set_index("method")


def pareto(ends: pd.DataFrame, cost: str, task: LearningTask) -> list[str]:
    """The methods that no other surpasses, in the order of their costs.

    A method surpasses another if it costs at most as much and its score is at least as good, but not equal in
    both. `ends` has a row for each method, with `score` and the column of the cost.
    """
    ordered = ends.sort_values(cost, kind="stable")
    costs, gains = ordered[cost].to_numpy(), task.sign * ordered.score.to_numpy()

    def surpassed(own: float, gain: float) -> bool:
        as_good = (costs <= own) & (gains >= gain)
        return bool((as_good & ((costs < own) | (gains > gain))).any())

    return [str(m) for m, *own in zip(ordered.index, costs, gains) if not surpassed(*own)]
