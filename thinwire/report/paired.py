"""Paired differences of runs: tests, intervals, and verdicts that are corrected for their number.

Verdicts are corrected by Holm's method over a family of comparisons that are read together. The families are
those of `thinwire.report.rows.comparisons`: the methods of a setting, and the methods of a setting on a
cluster. Claims are not corrected (docs/claims.md).
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

LEVEL = 0.05
POWER = 0.8
# Of a factor in time, as a logarithm, for the test of equivalence.
MARGIN_OF_SPEED = float(np.log(1.05))
# Percentages are read from text, so equal differences may differ in their last digits.
_ROUNDING = 1e-9
_NAN = math.nan


@dataclass(frozen=True)
class Comparison:
    """What `n` differences of pairs say; in the unit of what was compared. NaN: too few pairs to say it."""

    n: int
    mean: float
    sd: float  # if all differences are equal but not 0: the most that coarse values may hide
    low: float  # of the 95 % t interval of the mean
    high: float
    margin: float
    p_different: float  # two-sided paired t test; small: the mean is further from 0 than `floor`
    p_same: float  # TOST; small: the mean lies between -margin and +margin, by more than `floor`
    p_not_inferior: float  # one-sided t test; small: the mean is above -margin, by more than `floor`
    floor: float = 0.0  # how far the mean may be off for another reason than these pairs

    def detectable(self, tests: int = 1) -> float:
        """A difference of this size is found with a probability of 80 %, or more, in a family of so many."""
        return self.floor + detectable_in_sd(self.n, tests) * self.sd if self.n >= 2 else _NAN


def compare(
    ours: pd.Series, theirs: pd.Series, margin: float, resolution: float = 0.0, floor: float = 0.0
) -> Comparison:
    """Compare two series in pairs, `ours` minus `theirs`.

    Args:
        ours: finite values with the repetition as index; NaN is a missing value.
        theirs: likewise. Repetitions that are missing in one of the two are left out.
        margin: of equivalence and of non-inferiority, in the unit of the values, above 0.
        resolution: from one possible value to the next, in the same unit. For accuracy it is one image. It
            matters only if all differences are equal.
        floor: the noise floor of tuning, in the same unit. Tests ask for a distance beyond it, because it
            shifts all pairs alike, so that no number of pairs would show it.

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
        return Comparison(n, mean, _NAN, _NAN, _NAN, margin, _NAN, _NAN, _NAN, floor)
    if np.ptp(differences) <= _ROUNDING:
        return _of_equal_differences(n, float(differences[0]), margin, resolution, floor)
    return _comparison(n, differences.mean(), differences.std(ddof=1), margin, floor)


class Tests(NamedTuple):
    """What t tests say, as arrays of one number for each sample; the names are those of `Comparison`."""

    mean: NDArray[np.float64]
    sd: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    p_different: NDArray[np.float64]
    p_same: NDArray[np.float64]
    p_not_inferior: NDArray[np.float64]


def of_moments(
    n: int, mean: NDArray[np.float64], sd: NDArray[np.float64], margin: float, floor: float = 0.0
) -> Tests:
    """The tests of `compare` for samples of n differences with these means and standard deviations, not 0."""
    error, t = sd / math.sqrt(n), scipy.stats.t(n - 1)
    half = t.ppf(1 - LEVEL / 2) * error
    above = t.sf((mean + margin - floor) / error)
    below = t.cdf((mean - margin + floor) / error)
    return Tests(
        mean=mean,
        sd=sd,
        low=mean - half,
        high=mean + half,
        p_different=np.minimum(1.0, 2 * t.sf((np.abs(mean) - floor) / error)),
        p_same=np.maximum(above, below),
        p_not_inferior=above,
    )


def _comparison(n: int, mean: float, sd: float, margin: float, floor: float) -> Comparison:
    """The same for one sample."""
    tests = of_moments(n, np.asarray(mean), np.asarray(sd), margin, floor)
    found = {name: float(value) for name, value in tests._asdict().items()}
    return Comparison(n=n, margin=margin, floor=floor, **found)


@cache
def detectable_in_sd(n: int, tests: int = 1) -> float:
    """The mean difference, in its standard deviations, that a paired t test of n >= 2 pairs finds.

    The test is two-sided, and finds this difference with a probability of 80 %. Its level is 5 %, divided by
    the number of tests that are judged together: Holm's method asks no test for more.
    """
    # The square of t has a noncentral F distribution. (Statsmodels fails at the small levels of many tests.)
    limit = scipy.stats.f.isf(LEVEL / tests, 1, n - 1)

    def missed(size: float) -> float:
        return float(scipy.special.ncfdtr(1, n - 1, n * size**2, limit)) - (1 - POWER)

    return float(scipy.optimize.brentq(missed, 0.0, 2 * (math.sqrt(limit / n) + 2)))


def _of_equal_differences(
    n: int, difference: float, margin: float, resolution: float, floor: float
) -> Comparison:
    """All differences are equal, so that a t test would divide by 0.

    If they are 0, the results are equal in every pair, and nothing differs. Otherwise the values may be too
    coarse to show a spread. Exact values that are rounded to these have differences in an interval of twice
    the resolution, so the t tests assume the largest standard deviation that n numbers there can have.
    """
    if abs(difference) <= _ROUNDING:
        beyond = 0.0 if floor < margin else 1.0
        return Comparison(n, 0.0, 0.0, 0.0, 0.0, margin, 1.0, beyond, beyond, floor)
    sd = max(resolution, _ROUNDING) * math.sqrt(n / (n - 1))
    return _comparison(n, difference, sd, margin, floor)


# A study with more would take other means.
MOST_PAIRS = 10_000


def pairs_needed(made: Comparison, decides: Callable[[Comparison], bool]) -> int | None:
    """How many pairs with this mean and standard deviation would decide; None: more than `MOST_PAIRS`.

    Args:
        made: of pairs that do not decide; their standard deviation is not 0.
        decides: whether a comparison decides. If it does, so does one of more pairs.
    """

    def enough(pairs: int) -> bool:
        return decides(_comparison(pairs, made.mean, made.sd, made.margin, made.floor))

    if not enough(MOST_PAIRS):
        return None
    return bisect_left(range(MOST_PAIRS), True, lo=made.n, key=enough)


def of_mean(values: pd.Series, further: int, level: float) -> tuple[float, float]:
    """The ends between which the mean of `further` new values of the same normal distribution lies.

    It is the t interval mean ± t * sd * sqrt(1/n + 1/further), with n - 1 degrees of freedom. It lies in the
    interval with a probability of 1 - `level`. One value alone says nothing of the spread: it is infinite.

    Args:
        values: n values, in any unit; at least one.
        further: number of new values, at least 1.
        level: share of the cases outside the interval, for example 0.05.
    """
    n, mean = len(values), float(values.mean())
    if n < 2:
        return -math.inf, math.inf
    half = scipy.stats.t.ppf(1 - level / 2, n - 1) * values.std(ddof=1) * math.sqrt(1 / n + 1 / further)
    return mean - half, mean + half


def holm(p_values: Sequence[float]) -> list[float]:
    """The corrected p-values, in the same order; NaN stays NaN and does not count."""
    p = np.asarray(p_values, float)
    known = np.flatnonzero(~np.isnan(p))
    smallest_first = known[np.argsort(p[known])]
    tests_left = np.arange(len(known), 0, -1)
    corrected = np.full(len(p), math.nan)
    corrected[smallest_first] = np.minimum(1, np.maximum.accumulate(p[smallest_first] * tests_left))
    return corrected.tolist()


# With fewer pairs nothing is said: a spread that three runs show is too uncertain.
FEWEST_PAIRS = 5


class Verdict(StrEnum):
    """What tables say."""

    DIFFERENT = "different"  # the mean difference is not 0, nor within the noise floor
    NO_EFFECT = "no_effect"  # the mean difference is smaller than the margin
    INCONCLUSIVE = "inconclusive"  # too few pairs, or they spread too much


@dataclass(frozen=True)
class Judged:
    """A comparison, with the p-values by which it was judged among the others of its family."""

    comparison: Comparison
    p_different_holm: float  # NaN: fewer than `FEWEST_PAIRS` pairs
    p_same_holm: float
    detectable: float  # of `Comparison.detectable`, in this family

    @property
    def differs(self) -> bool:
        """Is the mean difference not 0?"""
        return self.p_different_holm < LEVEL

    @property
    def within_margin(self) -> bool:
        """Is the mean difference smaller than the margin? A tiny but sure difference is both."""
        return self.p_same_holm < LEVEL


def judge(family: Sequence[Comparison]) -> list[Judged]:
    """Judge the comparisons that are read together, such as those of all methods in one setting.

    The p-values are corrected with Holm's method. It keeps the probability of one or more wrong verdicts
    `different` below 5 %, and likewise that of wrong verdicts `no_effect`. Comparisons with fewer than
    `FEWEST_PAIRS` pairs are not judged, so they do not count.
    """
    different = holm([_enough(each, each.p_different) for each in family])
    same = holm([_enough(each, each.p_same) for each in family])
    tests = max(1, sum(not math.isnan(p) for p in different))
    return [Judged(*judged, judged[0].detectable(tests)) for judged in zip(family, different, same)]


def _enough(comparison: Comparison, p: float) -> float:
    return p if comparison.n >= FEWEST_PAIRS else math.nan
