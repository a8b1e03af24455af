"""The verdict on a claim from the values of two methods in pairs of the same repetition."""

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import pandas as pd

from thinwire.config.claim_schema import Claim
from thinwire.statistics import words
from thinwire.statistics.paired import MARGIN_POINTS, compare
from thinwire.statistics.rounding import table_digits


class Verdict(StrEnum):
    """What the table of claims says."""

    HELD = "held"  # the evidence shows it
    CONTRADICTED = "contradicted"  # the evidence shows that it does not hold
    DEPENDS = "depends on the reconstruction"  # variants of the method have different verdicts
    CANNOT_BE_TOLD = "cannot be told"  # no evidence yet, or too little
    NOT_TESTABLE = "not testable here"  # no run of this suite could show it


_OF_ANSWER = {True: Verdict.HELD, False: Verdict.CONTRADICTED, None: Verdict.CANNOT_BE_TOLD}


class Outcome(NamedTuple):
    """A verdict, and what it rests on. The estimate has the unit of the claim; NaN: there is none."""

    verdict: Verdict
    reason: str
    n: int = 0
    estimate: float = math.nan
    low: float = math.nan
    high: float = math.nan


def of_pairs(claim: Claim, ours: pd.Series, theirs: pd.Series, resolution: float = 0.0) -> Outcome:
    """The verdict on a claim.

    The estimate is a difference in points for accuracy (ours minus theirs), or in percent of theirs if the
    margin has this unit. It is a reduction in percent for bytes and seconds (0: as many, 100: none,
    negative: more). The interval holds all pairs for bytes, which
    are counted; for the others it is the 95 % t interval.

    Args:
        claim: what is tested.
        ours: the metric of the method, with the repetition as index; none is missing.
        theirs: that of the method it is compared with, for the same repetitions.
        resolution: from one possible accuracy to the next, in points.
    """
    if claim.statistic == "exact_bytes":
        return _of_bytes(claim, ours, theirs)
    if claim.statistic == "ratio":
        return _of_seconds(claim, ours, theirs)
    return _of_accuracy(claim, ours, theirs, resolution)


def over_variants(method: str, own: Outcome, variants: Mapping[str, Outcome]) -> Outcome:
    """The verdict on a reconstructed method: it is held, or contradicted, only if it is so for all variants.

    Args:
        method: its label.
        own: the outcome with its own choices.
        variants: the outcomes with other choices of what was reconstructed, by label.
    """
    labels = {own.verdict: [method]}
    for label, outcome in variants.items():
        labels.setdefault(outcome.verdict, []).append(label)
    if own.verdict not in (Verdict.HELD, Verdict.CONTRADICTED) or len(labels) == 1:
        return own
    opposed = Verdict.HELD in labels and Verdict.CONTRADICTED in labels
    verdict = Verdict.DEPENDS if opposed else Verdict.CANNOT_BE_TOLD
    reason = "; ".join(f"{each} for {', '.join(those)}" for each, those in labels.items())
    return own._replace(verdict=verdict, reason=reason)


def _of_bytes(claim: Claim, ours: pd.Series, theirs: pd.Series) -> Outcome:
    if (theirs == 0).any():
        return Outcome(Verdict.NOT_TESTABLE, "the method compared with sends nothing there", len(theirs))
    saved = 100 * (theirs - ours) / theirs
    low, high, margin = float(saved.min()), float(saved.max()), _margin(claim)
    counted = "counted, and equal in every repetition" if low == high else "counted"
    if low > margin:
        verdict, reason = Verdict.HELD, counted
    elif high <= margin:
        verdict, reason = Verdict.CONTRADICTED, counted
    else:
        verdict, reason = Verdict.CANNOT_BE_TOLD, "it holds in some repetitions and not in others"
    return Outcome(verdict, reason, len(saved), float(saved.mean()), low, high)


def _of_accuracy(claim: Claim, ours: pd.Series, theirs: pd.Series, resolution: float) -> Outcome:
    if claim.unit == "percent":
        if (theirs == 0).any():
            return Outcome(Verdict.NOT_TESTABLE, "no image is classified correctly there", len(theirs))
        resolution = 100 * resolution / theirs.min()
        ours, theirs = 100 * ours / theirs, 100 * theirs / theirs
    # A test for a difference alone has no margin; any above 0 serves there.
    margin = claim.margin.value if claim.margin else MARGIN_POINTS
    made = compare(ours, theirs, margin, resolution)
    match claim.direction:
        case "more":
            answer = words.on_gain(made)
        case "same":
            answer = words.on_equality(made)
        case _:
            answer = words.on_loss(made, "%" if claim.unit == "percent" else claim.unit)
    return Outcome(_OF_ANSWER[answer.shown], answer.words, made.n, made.mean, made.low, made.high)


def _of_seconds(claim: Claim, ours: pd.Series, theirs: pd.Series) -> Outcome:
    if missed := int(np.isinf(ours).sum() + np.isinf(theirs).sum()):
        runs = "1 run misses" if missed == 1 else f"{missed} runs miss"
        return Outcome(Verdict.CANNOT_BE_TOLD, f"{runs} the target", len(ours))
    # The logarithm of the ratio of seconds: those of the other method over ours.
    made = compare(np.log(theirs), np.log(ours))
    answer = words.on_reduction(made, _margin(claim))
    estimate, low, high = (100 * (1 - math.exp(-value)) for value in (made.mean, made.low, made.high))
    reason = f"by the seconds of {made.n} pairs: {answer.words}"
    return Outcome(_OF_ANSWER[answer.shown], reason, made.n, estimate, low, high)


def rounded(outcome: Outcome) -> Outcome:
    """The outcome with the numbers that tables give."""
    return outcome._replace(
        estimate=table_digits(outcome.estimate),
        low=table_digits(outcome.low),
        high=table_digits(outcome.high),
    )


def _margin(claim: Claim) -> float:
    return claim.margin.value if claim.margin else 0.0
