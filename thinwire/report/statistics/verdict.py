"""Verdicts on differences, corrected for their number.

Holm's correction of the p-values of a family: comparisons that are read together.

The families are those of `thinwire.report.rows.comparisons`: the methods of a cell, and the methods of a cell
on a cluster. Claims are not corrected (docs/claims.md).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from statsmodels.stats.multitest import multipletests

from thinwire.report.statistics.paired import LEVEL, Comparison


def holm(p_values: Sequence[float]) -> list[float]:
    """The corrected p-values, in the same order; NaN stays NaN and does not count."""
    known = [p for p in p_values if not math.isnan(p)]
    corrected = iter(multipletests(known, method="holm")[1] if known else [])
    return [math.nan if math.isnan(p) else float(next(corrected)) for p in p_values]


# With fewer pairs nothing is said: a spread that three runs show is too uncertain.
FEWEST_PAIRS = 5


class Verdict(StrEnum):
    """What tables say."""

    DIFFERENT = "different"  # the mean difference is not 0
    SAME = "same"  # the mean difference is smaller than the margin
    CANNOT_BE_TOLD = "cannot_be_told"  # too few pairs, or they spread too much


@dataclass(frozen=True)
class Judged:
    """A comparison, with the p-values by which it was judged among the others of its family."""

    comparison: Comparison
    p_different_holm: float  # NaN: fewer than `FEWEST_PAIRS` pairs
    p_same_holm: float

    @property
    def differs(self) -> bool:
        """Is the mean difference not 0?"""
        return self.p_different_holm < LEVEL

    @property
    def within_margin(self) -> bool:
        """Is the mean difference smaller than the margin? A tiny but sure difference is both."""
        return self.p_same_holm < LEVEL


def judge(family: Sequence[Comparison]) -> list[Judged]:
    """Judge the comparisons that are read together, such as those of all methods in one cell.

    The p-values are corrected with Holm's method. It keeps the probability of one or more wrong verdicts
    `different` below 5 %, and likewise that of wrong verdicts `same`. Comparisons with fewer than
    `FEWEST_PAIRS` pairs are not judged, so they do not count.
    """
    different = holm([_enough(each, each.p_different) for each in family])
    same = holm([_enough(each, each.p_same) for each in family])
    return [Judged(*judged) for judged in zip(family, different, same)]


def _enough(comparison: Comparison, p: float) -> float:
    return p if comparison.n >= FEWEST_PAIRS else math.nan
