"""Differences aggregated over many cells: the interquartile mean, with a bootstrap interval."""

import math
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from thinwire.statistics.paired import LEVEL

# A bootstrap of fewer values has intervals that are too narrow.
FEWEST_CELLS = 10
_SEED = 2026


class Aggregate(NamedTuple):
    """Over the cells; `low` and `high` bound 95 %, and are NaN with fewer than `FEWEST_CELLS` cells."""

    cells: int
    interquartile_mean: float
    low: float
    high: float


def aggregate(ours: pd.Series, theirs: pd.Series) -> Aggregate:
    """The interquartile mean of `ours` minus `theirs`, in pairs of the same cell.

    The interval is a bootstrap of the pairs, bias-corrected and accelerated (BCa).

    Args:
        ours: a finite value for each cell, with the cell as index, such as a mean accuracy.
        theirs: likewise. Cells that are missing in one of the two are left out.
    """
    pairs = pd.concat({"ours": ours, "theirs": theirs}, axis=1, join="inner").dropna().to_numpy(float)
    if not len(pairs):
        return Aggregate(0, math.nan, math.nan, math.nan)
    first, second = pairs.T
    estimate = float(_statistic(first, second))
    if len(pairs) < FEWEST_CELLS:
        return Aggregate(len(pairs), estimate, math.nan, math.nan)
    if np.ptp(first - second) == 0:  # every resample is the same
        return Aggregate(len(pairs), estimate, estimate, estimate)
    interval = stats.bootstrap(
        (first, second),
        _statistic,
        paired=True,
        method="BCa",
        confidence_level=1 - LEVEL,
        rng=np.random.default_rng(_SEED),
    ).confidence_interval
    return Aggregate(len(pairs), estimate, float(interval.low), float(interval.high))


def _statistic(ours: Any, theirs: Any, axis: int = -1) -> Any:
    """The mean of the middle half of the differences."""
    return stats.trim_mean(ours - theirs, 0.25, axis=axis)
