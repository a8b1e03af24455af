"""The columns of a summary that say how accuracies compare with the baseline's, from comparisons.csv."""

import pandas as pd

from thinwire.report.result_names import FEWEST_REPETITIONS
from thinwire.report.savings import CELL

_KEY = [*CELL, "method", "kind"]
COMPARED = [
    "n",
    "difference_mean_points",
    "difference_low_points",
    "difference_high_points",
    "verdict",
    "words",
]


def with_comparisons(table: pd.DataFrame, comparisons: pd.DataFrame) -> pd.DataFrame:
    """Add the columns `COMPARED`; they are empty in rows that are compared with nothing, or in one pair each.

    Args:
        table: from `summarise`.
        comparisons: one row for each cell, method and kind, in pairs of runs with the suite's baseline.
    """
    if comparisons.empty or comparisons.n.max() < FEWEST_REPETITIONS:
        return table.assign(**dict.fromkeys(COMPARED))
    return table.merge(comparisons[[*_KEY, *COMPARED]], on=_KEY, how="left", validate="one_to_one")
