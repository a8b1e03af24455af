"""Which points are drawn, and which lines have colours where there are more than can be told apart.

The baselines always have one, and the first of the others by a rule of each figure.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from thinwire.base.learning import LearningTask
from thinwire.report.rows.quantities import BLOCK

KINDS = {"inprocess": "in process"}


class Points(NamedTuple):
    """What is drawn, and what is not."""

    means: pd.DataFrame  # of each panel, method and epoch: `score`, its `sd`, and the columns asked for
    left_out: list[str]  # phrases for the note under the figure


def of_curves(curves: pd.DataFrame, *columns: str) -> Points:
    """The means over the repetitions at each epoch.

    Args:
        curves: one row for each evaluation of each run.
        columns: whose means are needed beside those of the score.
    """
    # If some runs ended early, a line would be a mean over fewer seeds from there on.
    ended = curves.status == "done"
    left_out = []
    if lost := curves[~ended].drop_duplicates([*BLOCK, "method", "repetition"]).shape[0]:
        left_out.append(left_out_phrase(lost, "run", "that did not end"))
    curves = curves[ended]
    needed = ["score", *columns]
    finite = np.isfinite(curves[needed].astype(float)).all(axis=1)
    if lost := int((~finite).sum()):
        left_out.append(left_out_phrase(lost, "evaluation", "without a number"))
    groups = curves[finite].groupby([*BLOCK, "method", "epoch", "evaluated_on"], sort=False)
    return Points(groups[needed].mean().assign(sd=groups.score.std(ddof=1)).reset_index(), left_out)


def left_out_phrase(count: int, noun: str, which: str) -> str:
    """How many of something a figure does not show, as a phrase for its note."""
    things, are = (noun, "is") if count == 1 else (f"{noun}s", "are")
    return f"{count} {things} {which} {are} left out"


def panels(means: pd.DataFrame) -> list[pd.DataFrame]:
    """The points of each panel: data sets and models in their order, then by the number of workers."""
    task = means.groupby(["dataset", "model"], sort=False).ngroup()
    ordered = means.assign(task=task).sort_values(["task", "workers", "nodes", "kind"], kind="stable")
    return [panel for _, panel in ordered.groupby(BLOCK, sort=False)]


def heading(panel: pd.DataFrame) -> str:
    """What the runs of a panel have in common."""
    row = panel.iloc[0]
    workers = f"{row.workers} worker{'s' if row.workers > 1 else ''}"
    nodes = f" on {row.nodes} nodes" if row.nodes > 1 else ""
    return f"{row.dataset}, {row.model}, {workers}{nodes}, {KINDS.get(row.kind, row.kind)}"


def last(panel: pd.DataFrame) -> pd.DataFrame:
    """The last point of each method, with the method as index."""
    return panel.sort_values("epoch", kind="stable").groupby("method", sort=False).tail(1).set_index("method")


def pareto(ends: pd.DataFrame, cost: str, task: LearningTask) -> list[str]:
    """The methods that no other surpasses, in the order of their costs.

    A method surpasses another if it costs at most as much and its score is at least as good, but not equal in
    both.

    Args:
        ends: a row for each method, with `score` and the column of the cost.
        cost: name of the column that should be small.
        task: says whether more is better.
    """
    ordered = ends.sort_values(cost, kind="stable")
    costs, gains = ordered[cost].to_numpy(), task.sign * ordered.score.to_numpy()

    def surpassed(own: float, gain: float) -> bool:
        as_good = (costs <= own) & (gains >= gain)
        return bool((as_good & ((costs < own) | (gains > gain))).any())

    return [str(m) for m, *own in zip(ordered.index, costs, gains) if not surpassed(*own)]


# More lines could not be distinguished.
MOST_LINES = 8


def good(panel: pd.DataFrame, cost: str, baselines: Collection[str], task: LearningTask) -> Sequence[str]:
    """All methods of a panel of scores, or in a crowded one, the baselines and the Pareto-optimal.

    If there are more than `MOST_LINES` of them, those with the best scores stand out.
    """
    ends = last(panel)
    if len(ends) <= MOST_LINES:
        return list(ends.index)
    best = ends.loc[pareto(ends, cost, task)]
    best = best.sort_values("score", ascending=not task.higher_is_better, kind="stable")
    return _with_baselines(ends.index, best.index, baselines)


def cheap(ratios: pd.DataFrame, most: float, baselines: Collection[str]) -> Sequence[str]:
    """The baselines, and the methods with the largest areas under their lines in a performance profile.

    Args:
        ratios: a column for each method, a row for each cell.
        most: the end of the axis, which is logarithmic.
        baselines: labels.
    """
    areas = np.log(most / ratios.clip(upper=most)).mean().sort_values(ascending=False, kind="stable")
    return _with_baselines(ratios.columns, areas.index, baselines)


def fast(rows: pd.DataFrame, baselines: Collection[str]) -> Sequence[str]:
    """The baselines, and the methods with the largest speed-ups on the most workers.

    Args:
        rows: with columns `method`, `workers` and `speed_up`.
        baselines: labels.
    """
    most = rows[rows.workers == rows.workers.max()]
    speed_ups = most.groupby("method").speed_up.median().sort_values()
    return _with_baselines(rows.method.unique(), speed_ups.index[::-1], baselines)


def _with_baselines(
    methods: Collection[str], best_first: Collection[str], baselines: Collection[str]
) -> Sequence[str]:
    """Of `methods`, in their order, the baselines and the first others until there are `MOST_LINES`."""
    first = [method for method in methods if method in baselines]
    others = [method for method in best_first if method not in baselines]
    chosen = {*first, *others[: max(0, MOST_LINES - len(first))]}
    return [method for method in methods if method in chosen]
