"""The verdict on a claim follows from pairs of values."""

import math
from statistics import geometric_mean

import numpy as np
import pandas as pd
import pytest

from tests.claims import ACCURACY, STEP, TO_TARGET, claim, points
from thinwire.report.claim_verdict import fields, of_pairs, says

# Of six pairs; their mean is 0.
SPREAD = [0.1, -0.1, 0.05, -0.05, 0.2, -0.2]
NOWHERE = dict.fromkeys(["dataset", "model", "workers", "nodes", "kind", "cluster"], "")


def judged(of, differences, other=90.0, resolution=0.01):
    theirs = pd.Series([other] * len(differences))
    return of_pairs(of, theirs + differences, theirs, resolution)


def bytes_of(of, *ours, other=100.0):
    return of_pairs(of, pd.Series(ours), pd.Series([other] * len(ours)))


def test_bytes_are_compared_exactly_and_one_pair_is_enough():
    found = bytes_of(claim(), 99.0)
    assert (found.verdict, found.estimate, found.n) == ("held", pytest.approx(1), 1)
    assert bytes_of(claim(), 100.0).verdict == "contradicted"
    assert bytes_of(claim(), 101.0).verdict == "contradicted"
    found = bytes_of(claim(), 90.0, 120.0)
    assert (found.verdict, found.low, found.high) == ("inconclusive", pytest.approx(-20), pytest.approx(10))
    assert found.estimate == pytest.approx(-5)
    assert bytes_of(claim(), 5.0, other=0.0).verdict == "not testable here", "the other sends nothing"


def test_a_published_share_must_be_exceeded():
    share = claim(scope="number", margin={"value": 88.98, "unit": "percent"})
    assert bytes_of(share, 11.0).verdict == "held"
    assert bytes_of(share, 11.1).verdict == "contradicted"


def around(shift, scale=1.0):
    return [shift + scale * value for value in SPREAD]


NEEDED = "; with this mean and spread, "
FEW, FOUND = "4 pairs, and 5 are needed at least", "6 pairs would find a {} with a probability of 80 %"


@pytest.mark.parametrize(
    ("direction", "margin", "differences", "verdict", "reason"),
    [
        ("same", 0.3, around(0.0), "held", "no effect of 0.3 points or more"),
        ("same", 0.3, around(0.16), "held", "better by 0.16 points, but no effect of 0.3 points or more"),
        ("same", 0.3, [0.0] * 5, "held", "equal in every pair"),
        ("same", 0.1, around(0.0), "inconclusive", "the difference may be below or above 0.1 points"),
        ("same", 0.3, around(1.0), "contradicted", "better by 1.00 points"),
        ("same", 0.3, around(-1.0), "contradicted", "worse by 1.00 points"),
        ("same", 0.3, around(0.0)[:4], "inconclusive", FEW),
        ("not_less", 0.3, around(0.0), "held", "no loss of 0.3 points or more"),
        ("not_less", 0.3, around(5.0), "held", "no loss of 0.3 points or more"),
        ("not_less", 0.3, around(-0.3), "inconclusive", "the loss may be below or above 0.3 points"),
        ("not_less", 0.3, around(-1.0), "contradicted", "a loss of 0.3 points or more"),
        ("not_less", 0.3, around(0.0)[:4], "inconclusive", FEW),
        ("more", None, around(1.0), "held", "better by 1.00 points"),
        ("more", None, around(0.0), "no effect", "no effect of 0.3 points or more"),
        ("more", None, around(0.15, 5), "inconclusive", FOUND.format("difference of 1.04 points")),
        ("more", None, [0.0] * 5, "contradicted", "equal in every pair"),
        ("more", None, around(-1.0), "contradicted", "worse by 1.00 points"),
        ("more", None, around(1.0)[:4], "inconclusive", FEW),
    ],
)
def test_accuracy_is_compared_in_pairs(direction, margin, differences, verdict, reason):
    of = claim(**ACCURACY[direction], **(points(margin) if margin else {}))
    found = judged(of, differences)
    assert (found.verdict, found.reason.partition(NEEDED)[0]) == (verdict, reason)
    assert (NEEDED in found.reason) == (verdict == "inconclusive" and len(differences) >= 5)
    assert found.estimate == pytest.approx(np.mean(differences))
    assert (found.low < found.estimate < found.high) == (np.ptp(differences) > 0)


def test_an_inconclusive_claim_says_how_many_pairs_would_decide():
    def with_pairs(number):
        values = np.resize([1.0, -1.0], number)
        return list(0.2 + 1.5 * (values - values.mean()) / values.std(ddof=1))

    of = claim(**ACCURACY["not_less"], **points(0.3))
    found = judged(of, with_pairs(6))
    needed = int(found.reason.partition(NEEDED)[2].split()[0])
    verdicts = [str(judged(of, with_pairs(number)).verdict) for number in (needed - 1, needed)]
    assert verdicts == ["inconclusive", "held"]
    # No number of pairs shows a difference that is the margin, or as far from it as tuning may be.
    assert judged(of, around(-0.3)).reason.endswith(f"{NEEDED}more than 10,000 pairs would be needed")


def test_a_gain_that_is_below_the_margin_if_there_is_one_is_no_effect():
    of = claim(**ACCURACY["more"])
    found = judged(of, around(0.15))
    assert (found.verdict, found.reason) == ("no effect", "no effect of 0.3 points or more")
    assert "neither held nor contradicted" in says(of, found, fields(of, "ssgd", found, NOWHERE), False)


@pytest.mark.parametrize(
    ("other", "verdict", "estimate"), [(90.0, "held", -0.4), (60.0, "contradicted", -0.6)]
)
def test_a_loss_in_percent_is_a_share_of_the_accuracy_compared_with(other, verdict, estimate):
    """0.36 points are 0.4 % of 90 %, and 0.6 % of 60 %."""
    of = claim(**ACCURACY["not_less"], margin={"value": 0.5, "unit": "percent"})
    found = judged(of, around(-0.36, 0.1), other)
    assert found.verdict == verdict
    assert found.estimate == pytest.approx(estimate)
    assert "%" in found.reason
    assert "points" not in found.reason
    assert judged(of, SPREAD, other=0.0).verdict == "not testable here"


def test_equal_differences_of_one_image_are_no_certainty_and_those_of_many_images_are():
    of = claim(**ACCURACY["more"])
    assert judged(of, [-1.0] * 5, resolution=1.0).verdict == "inconclusive"
    found = judged(of, [-1.0] * 5, resolution=0.1)
    assert (found.verdict, found.reason) == ("contradicted", "worse by 1.00 points")


def times(factor, noise=0.01):
    return [factor * (1 + noise * value) for value in SPREAD]


@pytest.mark.parametrize(
    ("ratios", "margin", "verdict", "reason"),
    [
        (times(0.5), 30, "held", "2.00 times faster"),
        (times(0.5), 60, "contradicted", "the reduction is not above 60 %"),
        (times(0.995), 30, "contradicted", "the reduction is not above 30 %"),
        (times(0.7), 30, "inconclusive", "the reduction may be below or above 30 %"),
        (times(1.5), 0, "contradicted", "1.50 times slower"),
        ([1.0] * 6, 0, "contradicted", "the same time in every pair"),
        (times(1.0), 0, "no effect", "no effect of 5 % or more"),
        (times(1.0, 1.0), 0, "inconclusive", FOUND.format("factor of 1.23")),
        (times(0.5)[:4], 0, "inconclusive", FEW),
    ],
)
def test_seconds_are_compared_as_ratios(ratios, margin, verdict, reason):
    theirs = pd.Series([1.0, 2.0, 3.0, 4.0, 5.0, 6.0][: len(ratios)])
    found = of_pairs(claim(**STEP, margin={"value": margin, "unit": "percent"}), ratios * theirs, theirs)
    first = found.reason.partition(NEEDED)[0]
    assert (found.verdict, first) == (verdict, f"by the seconds of {len(ratios)} pairs: {reason}")
    assert found.estimate == pytest.approx(100 * (1 - geometric_mean(ratios)))
    assert (found.low < found.estimate < found.high) == (np.ptp(ratios) > 0)


def test_a_run_that_misses_the_target_has_no_seconds_to_compare():
    found = of_pairs(claim(**TO_TARGET), pd.Series([1.0, math.inf] * 3), pd.Series([2.0] * 6))
    assert (found.verdict, found.reason) == ("inconclusive", "3 runs miss the target")
    assert math.isnan(found.estimate)
