"""Verdicts follow from corrected p-values, and words from verdicts."""

import math
from dataclasses import replace

import pandas as pd
import pytest

from thinwire.statistics import words
from thinwire.statistics.holm import holm
from thinwire.statistics.paired import compare
from thinwire.statistics.verdict import Verdict, judge

NAN = math.nan
SPREAD = pd.Series([-0.05, 0.05, 0.0, -0.05, 0.05, 0.0])


def of(differences, n=6, margin=0.3):
    """The comparison of runs with these differences."""
    differences = pd.Series(differences)[:n]
    return compare(90 + differences, differences * 0 + 90, margin)


def verdict_and_words(comparison):
    (judged,) = judge([comparison])
    return judged.verdict, words.of_accuracy(judged)


def test_holm_by_hand():
    """Sorted: 0.01 x 3, 0.02 x 2, 0.5 x 1, none below one before it; a missing value does not count."""
    assert holm([0.02, NAN, 0.5, 0.01]) == pytest.approx([0.04, NAN, 0.5, 0.03], nan_ok=True)
    assert holm([0.04, 0.03, 0.035]) == pytest.approx([0.09] * 3)
    assert holm([]) == []
    assert all(math.isnan(p) for p in holm([NAN, NAN]))


@pytest.mark.parametrize(
    ("differences", "verdict", "phrase"),
    [
        (1.5 + SPREAD, Verdict.DIFFERENT, "better by 1.50 points"),
        (-1.5 + 10 * SPREAD, Verdict.DIFFERENT, "worse by 1.50 points"),
        (SPREAD, Verdict.SAME, "the same within 0.3 points"),
        (-0.1 + SPREAD, Verdict.DIFFERENT, "worse by 0.10 points, but the same within 0.3 points"),
        (0 * SPREAD, Verdict.SAME, "the same in every pair"),
    ],
)
def test_a_verdict_and_its_words(differences, verdict, phrase):
    assert verdict_and_words(of(differences)) == (verdict, phrase)


def test_what_cannot_be_told_says_what_could():
    verdict, phrase = verdict_and_words(of(20 * SPREAD))
    assert verdict is Verdict.CANNOT_BE_TOLD
    detectable = of(20 * SPREAD).detectable
    assert phrase == (
        f"cannot be told: 6 pairs find a difference of {detectable:.2f} points with a probability of 80 %"
    )


@pytest.mark.parametrize("n", [0, 1, 4])
def test_fewer_than_five_pairs_say_nothing_however_far_apart(n):
    comparison = of([30.0, 31.0, 30.5, 29.0, 30.0], n)
    verdict, phrase = verdict_and_words(comparison)
    assert verdict is Verdict.CANNOT_BE_TOLD
    assert phrase.endswith(f"{n} pair{'s' * (n != 1)}, and 5 are needed at least")
    assert words.of_loss(comparison) == words.of_speed(judge([comparison])[0]) == phrase
    assert verdict_and_words(of([30.0, 31.0, 30.5, 29.0, 30.0]))[0] is Verdict.DIFFERENT


def test_comparisons_are_judged_among_those_that_are_read_with_them():
    """A p-value of 0.03 is a verdict alone, and none among three; runs without pairs do not count."""
    alone = replace(of(20 * SPREAD), p_different=0.03)
    none = of([], 0)
    assert judge([alone, none, none])[0].verdict is Verdict.DIFFERENT
    family = judge([alone, none, alone, alone])
    assert {each.verdict for each in family} == {Verdict.CANNOT_BE_TOLD}
    assert family[0].p_different_holm == pytest.approx(0.09)


def test_no_loss_is_said_only_if_a_test_says_so():
    assert words.of_loss(of(SPREAD, margin=0.5)) == "no loss of 0.5 points or more"
    assert words.of_loss(of(SPREAD - 0.5, margin=0.5)).startswith("cannot be told")
    assert words.of_loss(of(SPREAD * 30, margin=0.5)).startswith("cannot be told")


def test_speed_is_said_as_a_factor():
    factor = math.log(2) + SPREAD
    assert words.of_speed(judge([of(factor)])[0]) == "2.00 times faster"
    assert words.of_speed(judge([of(-factor)])[0]) == "2.00 times slower"
    assert words.of_speed(judge([of(20 * SPREAD)])[0]).startswith("cannot be told: 6 pairs find a factor of")
