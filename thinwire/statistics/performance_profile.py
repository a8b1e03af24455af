"""Performance profiles: how often a method is within a factor of the best one (Dolan and Moré, 2002)."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

# Profiles and scores end at this factor, as in AlgoPerf.
LARGEST_FACTOR = 4.0


def ratios(costs: pd.DataFrame) -> pd.DataFrame:
    """Each cost over the smallest of its cell: 1 for the best, infinite for a miss.

    In a cell that every method misses, all ratios are infinite.

    Args:
        costs: one row for each cell and one column for each method, such as the bytes to a target. They are 0
            or more; a miss is infinite. NaN: the method has no run there; its profile leaves the cell out.
    """
    best = costs.min(axis=1)
    of_best = costs.div(best.where(best > 0), axis=0).where(np.isfinite(costs), np.inf)
    return of_best.fillna(np.inf).mask(costs.eq(best, axis=0) & np.isfinite(costs), 1.0).where(costs.notna())


def profile(ratios: pd.DataFrame, factors: Sequence[float]) -> pd.DataFrame:
    """The share of cells in which a method is within a factor of the best.

    Factors are rows, and methods are columns.
    """
    shares = {factor: (ratios <= factor).astype(float).where(ratios.notna()).mean() for factor in factors}
    return pd.DataFrame(shares).T.rename_axis("factor")


def score(ratios: pd.DataFrame) -> pd.Series:
    """The mean of each method's profile between the factors 1 and 4; 1 for the best of every cell."""
    # The integral of a step that rises at the ratio.
    return ((LARGEST_FACTOR - ratios.clip(upper=LARGEST_FACTOR)) / (LARGEST_FACTOR - 1)).mean()
