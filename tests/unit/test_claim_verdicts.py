"""The verdict on a claim follows from pairs of values."""

import math
import re

import numpy as np
import pandas as pd
import pytest

from tests.claims import ACCURACY, STEP, TO_TARGET, claim, points
from thinwire.report.claims.claim_verdict import fields, of_pairs, says

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


@pytest.mark.parametrize(
    ("direction", "margin", "shift", "verdict"),
    [
        ("same", 0.3, 0.0, "held"),
        ("same", 0.1, 0.0, "inconclusive"),
        ("same", 0.3, 1.0, "contradicted"),
        ("same", 0.3, -1.0, "contradicted"),
        ("not_less", 0.3, 0.0, "held"),
        ("not_less", 0.3, 5.0, "held"),
        ("not_less", 0.3, -0.3, "inconclusive"),
        ("not_less", 0.3, -1.0, "contradicted"),
        ("more", None, 1.0, "held"),
        ("more", None, 0.0, "no effect"),
        ("more", None, -1.0, "contradicted"),
    ],
)
def test_accuracy_is_compared_in_pairs(direction, margin, shift, verdict):
    of = claim(**ACCURACY[direction], **(points(margin) if margin else {}))
    found = judged(of, [shift + value for value in SPREAD])
    assert found.verdict == verdict
    assert found.estimate == pytest.approx(shift)
    assert found.low < shift < found.high


def test_a_gain_that_is_below_the_margin_if_there_is_one_is_no_effect():
    of = claim(**ACCURACY["more"])
    found = judged(of, [0.15 + value for value in SPREAD])
    assert (found.verdict, found.reason) == ("no effect", "no effect of 0.3 points or more")
    assert "neither held nor contradicted" in says(of, found, fields(of, "ssgd", found, NOWHERE), False)
    spread = judged(of, [0.15 + 5 * value for value in SPREAD])
    assert spread.verdict == "inconclusive"
    assert "pairs would find a difference of" in spread.reason


@pytest.mark.parametrize(
    ("other", "verdict", "estimate"), [(90.0, "held", -0.4), (60.0, "contradicted", -0.6)]
)
def test_a_loss_in_percent_is_a_share_of_the_accuracy_compared_with(other, verdict, estimate):
    """0.36 points are 0.4 % of 90 %, and 0.6 % of 60 %."""
    of = claim(**ACCURACY["not_less"], margin={"value": 0.5, "unit": "percent"})
    found = judged(of, [-0.36 + 0.1 * value for value in SPREAD], other)
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


@pytest.mark.parametrize(
    ("factor", "margin", "verdict"),
    [
        (0.5, 30, "held"),
        (0.5, 60, "contradicted"),
        (0.995, 30, "contradicted"),
        (0.7, 30, "inconclusive"),
        (1.5, 0, "contradicted"),
        (1.0, 0, "no effect"),
    ],
)
def test_seconds_are_compared_as_ratios(factor, margin, verdict):
    theirs = pd.Series([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    noise = pd.Series([0.01 * value for value in SPREAD])
    of = claim(**STEP, margin={"value": margin, "unit": "percent"})
    found = of_pairs(of, factor * theirs * (1 + noise), theirs)
    assert found.verdict == verdict
    assert found.estimate == pytest.approx(100 * (1 - factor), abs=0.01)
    assert found.low < found.estimate < found.high


def test_a_run_that_misses_the_target_has_no_seconds_to_compare():
    found = of_pairs(claim(**TO_TARGET), pd.Series([1.0, math.inf] * 3), pd.Series([2.0] * 6))
    assert (found.verdict, found.reason) == ("inconclusive", "3 runs miss the target")
    assert math.isnan(found.estimate)


UNDECIDED = (
    r"pairs?, and 5 are needed at least|pairs would find a (difference|factor) of|may be below or above"
)
DECIDED = {
    ("more", "held"): r"better by .* points",
    ("more", "contradicted"): r"worse by .* points|equal in every pair",
    (
        "same",
        "held",
    ): r"((better|worse) by .* points, but )?no effect of .* points or more|equal in every pair",
    ("same", "contradicted"): r"(better|worse) by .* points",
    ("not_less", "held"): r"no loss of .* points or more",
    ("not_less", "contradicted"): r"a loss of .* points or more",
    ("less", "held"): r"by the seconds of \d+ pairs: .* times faster",
    ("less", "no effect"): r"by the seconds of \d+ pairs: no effect of 5 % or more",
    (
        "less",
        "contradicted",
    ): r"by .*: (.* times slower|the same time in .*|the reduction is not above \d+ %)",
}


@pytest.mark.parametrize("direction", ["more", "same", "not_less", "less"])
def test_verdicts_and_reasons_agree_whatever_the_runs_say(direction):
    random = np.random.default_rng(2026)
    seen = set()
    for _ in range(80):
        n, margin, spread = random.integers(1, 13), int(random.choice([1, 30])), random.choice([0, 0.05, 1])
        drawn = np.round(random.normal(random.choice([0, 1, -0.9, 40, -40]), spread, n))
        if direction == "less":
            margin = random.choice([0, margin])
            of = claim(**STEP, margin={"value": margin, "unit": "percent"})
            found = of_pairs(of, pd.Series(100 - drawn), pd.Series([100.0] * n))
            inside, outside = found.estimate > margin, found.estimate <= margin
        else:
            of = claim(**ACCURACY[direction], **({} if direction == "more" else points(margin)))
            found = judged(of, drawn, other=50.0, resolution=0.1)
            estimate = found.estimate if direction != "same" else margin - abs(found.estimate)
            least = -margin if direction == "not_less" else 0
            inside, outside = estimate > least, estimate <= least
        if found.verdict == "inconclusive":
            assert re.search(UNDECIDED, found.reason), found
        else:
            if found.verdict == "no effect":
                assert abs(found.estimate) < 5, found
            else:
                assert inside if found.verdict == "held" else outside, found
            assert re.fullmatch(DECIDED[direction, found.verdict], found.reason), found
            assert n >= 5
        seen.add(str(found.verdict))
    assert seen - {"no effect"} == {"held", "contradicted", "inconclusive"}
    assert ("no effect" in seen) == (direction == "less")  # with these draws
