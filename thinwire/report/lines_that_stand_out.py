"""Which methods of a figure have lines in colour, where there are more lines than can be told apart.

The baselines always do. The others are the first by a rule of each figure. All other lines are grey or left
out.
"""

from collections.abc import Collection, Sequence

import numpy as np
import pandas as pd

from thinwire.report.accuracy_points import last, pareto

# More lines cannot be told apart.
MOST_LINES = 8


def accurate(panel: pd.DataFrame, cost: str, baselines: Collection[str]) -> Sequence[str]:
    """All methods of a panel of accuracy, or in a crowded one, the baselines and the Pareto-optimal.

    If there are more than `MOST_LINES` of them, the most accurate stand out.
    """
    ends = last(panel)
    if len(ends) <= MOST_LINES:
        return list(ends.index)
    best = ends.loc[pareto(ends, cost)].sort_values("accuracy", ascending=False, kind="stable")
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
