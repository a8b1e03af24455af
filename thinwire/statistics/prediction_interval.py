"""The interval in which the mean of further runs lies, from the runs that are there."""

import math
from typing import NamedTuple

import pandas as pd
from scipy import stats


class Interval(NamedTuple):
    """Both ends belong to it; infinite if one value says nothing of the spread."""

    low: float
    high: float


def of_mean(values: pd.Series, further: int, level: float) -> Interval:
    """Where the mean of `further` new values of the same normal distribution lies.

    It is the t interval mean ± t * sd * sqrt(1/n + 1/further), with n - 1 degrees of freedom. It lies in the
    interval with a probability of 1 - `level`.

    Args:
        values: n values, in any unit; at least one.
        further: number of new values, at least 1.
        level: share of the cases outside the interval, for example 0.05.
    """
    n, mean = len(values), float(values.mean())
    if n < 2:
        return Interval(-math.inf, math.inf)
    half = stats.t.ppf(1 - level / 2, n - 1) * values.std(ddof=1) * math.sqrt(1 / n + 1 / further)
    return Interval(mean - half, mean + half)
