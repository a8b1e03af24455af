"""A comparison in pairs: the runs of two methods with the same repetition, and so with the same seed."""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.power import TTestPower
from statsmodels.stats.weightstats import ttost_paired

# Accuracies that differ by less than this are called equal, in percentage points.
MARGIN_POINTS = 0.3
LEVEL = 0.05
POWER = 0.8
# Percentages are read from text, so equal differences may differ in their last digits.
_ROUNDING = 1e-9
_NAN = math.nan


@dataclass(frozen=True)
class Comparison:
    """What `n` differences of pairs say; in the unit of what was compared. NaN: too few pairs to say it."""

    n: int
    mean: float
    sd: float
    low: float  # of the 95 % t interval of the mean
    high: float
    margin: float
    p_different: float  # two-sided paired t test; small: the mean is not 0
    p_same: float  # TOST; small: the mean lies between -margin and +margin
    p_not_inferior: float  # one-sided t test; small: the mean is above -margin
    detectable: float  # a difference of this size is found with a probability of 80 %


def compare(ours: pd.Series, theirs: pd.Series, margin: float = MARGIN_POINTS) -> Comparison:
    """Compare two series in pairs, `ours` minus `theirs`.

    Args:
        ours: finite values with the repetition as index; NaN is a missing value.
        theirs: likewise. Repetitions that are missing in one of the two are left out.
        margin: of equivalence and of non-inferiority, in the unit of the values, above 0.

    Raises:
        ValueError: a repetition occurs twice, or a value is infinite.
    """
    if not (ours.index.is_unique and theirs.index.is_unique):
        raise ValueError("a repetition occurs twice")
    pairs = pd.concat({"ours": ours, "theirs": theirs}, axis=1, join="inner").dropna().astype(float)
    if not np.isfinite(pairs.to_numpy()).all():
        raise ValueError("infinite values have no difference")
    n, differences = len(pairs), (pairs.ours - pairs.theirs).to_numpy()
    if n < 2:
        mean = float(differences.mean()) if n else _NAN
        return Comparison(n, mean, _NAN, _NAN, _NAN, margin, _NAN, _NAN, _NAN, _NAN)
    if np.ptp(differences) <= _ROUNDING:
        return _of_equal_differences(n, float(differences[0]), margin)
    test = stats.ttest_rel(pairs.ours, pairs.theirs)
    interval = test.confidence_interval(1 - LEVEL)
    p_same, (_, p_not_inferior, _), _ = ttost_paired(
        pairs.ours.to_numpy(), pairs.theirs.to_numpy(), -margin, margin
    )
    sd = float(differences.std(ddof=1))
    return Comparison(
        n=n,
        mean=float(differences.mean()),
        sd=sd,
        low=float(interval.low),
        high=float(interval.high),
        margin=margin,
        p_different=float(test.pvalue),
        p_same=float(p_same),
        p_not_inferior=float(p_not_inferior),
        detectable=detectable_in_sd(n) * sd,
    )


@cache
def detectable_in_sd(n: int) -> float:
    """The mean difference, in its standard deviations, that a paired t test of n >= 2 pairs finds.

    It is two-sided at 5 % and finds this difference with a probability of 80 %.
    """
    found = TTestPower().solve_power(nobs=n, alpha=LEVEL, power=POWER, alternative="two-sided")
    return float(found)


def _of_equal_differences(n: int, difference: float, margin: float) -> Comparison:
    """All differences are equal, so that a t test would divide by 0.

    If they are 0, the results are equal in every pair, and nothing differs. Otherwise accuracy is too coarse
    to show a spread, which is no certainty. Then the p-values are those of sign tests.
    """
    if abs(difference) <= _ROUNDING:
        p_different, p_same, p_not_inferior, difference = 1.0, 0.0, 0.0, 0.0
    else:
        all_on_one_side = 0.5**n
        p_different = 2 * all_on_one_side
        p_same = all_on_one_side if abs(difference) < margin else 1.0
        p_not_inferior = all_on_one_side if difference > -margin else 1.0
    return Comparison(
        n, difference, 0.0, difference, difference, margin, p_different, p_same, p_not_inferior, 0.0
    )
