"""Intervals and verdicts are wrong as often as they say, in simulated comparisons with normal errors."""

import gc
import math
import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from benchmarks import committed_tables
from tests.docs import pages
from thinwire.base.learning import CLASSIFICATION
from thinwire.plugins import ROOT
from thinwire.report.report_files import fixed
from thinwire.report.rows.collect import read_summary
from thinwire.report.statistics import words
from thinwire.report.statistics.paired import (
    FEWEST_PAIRS,
    LEVEL,
    POWER,
    Verdict,
    compare,
    detectable_in_sd,
    holm,
    judge,
    t_tests,
)

SAMPLES = 20_000
# Four standard errors of a share that is estimated from as many samples.
NOISE = 4 * 0.5 / math.sqrt(SAMPLES)
PAGE = (ROOT / "docs/statistics.md").read_text()


@pytest.fixture
def quick_holm(monkeypatch):
    """Statsmodels collects garbage in every correction by Holm, which takes a tenth of a second."""
    monkeypatch.setattr(gc, "collect", lambda: 0)


def samples(n, sd=1.0, mean=0.0, samples=SAMPLES):
    return np.random.default_rng(n).normal(mean, sd, (samples, n))


@pytest.mark.parametrize("n", [3, 5, 10, 20])
def test_intervals_cover_the_mean_as_often_as_they_say(n):
    found = t_tests(samples(n, mean=0.7), CLASSIFICATION.margin)
    covered = np.mean((found.low < 0.7) & (found.high > 0.7))
    assert 0.94 < covered < 0.96


@pytest.mark.parametrize("n", [3, 5, 10, 20])
def test_no_test_errs_more_often_than_5_percent(n):
    """Each at the border of what it denies: no difference, or one as large as the margin."""
    level = pytest.approx(LEVEL, abs=0.0065)
    assert np.mean(t_tests(samples(n), 1.0).p_different < LEVEL) == level
    assert np.mean(t_tests(samples(n, mean=-1), 1.0).p_not_inferior < LEVEL) == level
    assert np.mean(t_tests(samples(n, mean=1), 1.0).p_same < LEVEL) < LEVEL + 0.0065
    precise = t_tests(samples(n, mean=1, sd=0.1), 1.0)
    assert np.mean(precise.p_same < LEVEL) == level


@pytest.mark.parametrize("tests", [1, 11])
@pytest.mark.parametrize("n", [3, 5, 10, 20, 30])
def test_the_detectable_difference_is_found_as_often_as_it_says(n, tests):
    found = t_tests(samples(n, mean=detectable_in_sd(n, tests)), CLASSIFICATION.margin)
    assert np.mean(found.p_different < LEVEL / tests) == pytest.approx(POWER, abs=NOISE)


def rows_of(heading):
    """The numbers of the table of the page whose first column has this heading."""
    (table,) = (rows for rows in pages.tables(PAGE) if rows[0][0].startswith(heading))
    numbers = [int(re.sub(r"\D", "", cell)) for cell in table[0][1:]]
    return [(row[0], dict(zip(numbers, map(float, row[1:])))) for row in table[1:]]


@pytest.mark.parametrize("row", range(3))
def test_the_page_says_how_often_equal_methods_are_called_the_same(row):
    sd, powers = rows_of("standard deviation")[row]
    for n, power in powers.items():
        found = t_tests(samples(n, sd=float(sd)), CLASSIFICATION.margin)
        assert np.mean(found.p_same < LEVEL) == pytest.approx(power, abs=0.005 + NOISE)


def test_the_page_says_which_difference_is_found():
    for (_, sizes), tests in zip(rows_of("detectable"), (1, 11), strict=True):
        assert sizes == {n: round(detectable_in_sd(n, tests), 2) for n in sizes}


def test_the_page_says_how_rarely_a_percentile_bootstrap_of_few_runs_covers_the_mean():
    ((_, coverage),) = rows_of("coverage")
    for n, expected in coverage.items():
        rng = np.random.default_rng(n)
        values = rng.normal(size=(2000, n))
        means = values[:, rng.integers(n, size=(1000, n))].mean(axis=-1)
        low, high = np.percentile(means, [2.5, 97.5], axis=1)
        assert 100 * np.mean((low < 0) & (high > 0)) == pytest.approx(expected, abs=3)


def test_the_page_says_what_the_choice_of_test_images_adds():
    """sqrt(p (1-p) / n), in points, of the committed runs of `ssgd` on the largest number of workers."""
    demo, study = of_ssgd("demo", "cnn"), of_ssgd("laptop", "cnn_bn")
    for sentence in (
        "This is {points} points for the demo, where `ssgd` has {accuracy} % on {images} test images",
        "{points} points for the study, where it has {accuracy} % on {images} with `cnn_bn`",
    ):
        said = sentence.format(**(demo if "demo" in sentence else study))
        assert said in PAGE.replace("\n", " ")


def of_ssgd(suite, model):
    """What the page says of `ssgd` in a suite."""
    runs = read_summary(committed_tables.FOLDER, suite)
    runs = runs[(runs.model == model) & (runs.method == "ssgd") & (runs.workers == runs.workers.max())]
    accuracy, images = runs.score.mean(), int(runs.evaluated_images.iloc[0])
    points = math.sqrt(accuracy * (100 - accuracy) / images)
    return {"points": fixed(points, 1), "accuracy": fixed(accuracy, 2), "images": f"{images:,}"}


def test_holm_keeps_the_familywise_error_below_5_percent_and_no_correction_does_not(quick_holm):
    """Of eight methods that share the runs of one baseline, none differs from it."""
    rng = np.random.default_rng(0)
    families, methods, n = 2000, 8, 10
    differences = rng.normal(size=(families, methods, n)) - rng.normal(size=(families, 1, n))
    p = t_tests(differences, CLASSIFICATION.margin).p_different
    corrected = np.mean([min(holm(family)) < LEVEL for family in p])
    assert 0.02 < corrected < LEVEL + 0.01
    assert np.mean(p.min(axis=1) < LEVEL) > 0.15


def test_verdicts_of_whole_comparisons(quick_holm):
    """What equal methods, and methods that differ by a point, are called with 10 pairs and an sd of 0.3."""
    equal, other = ([verdict(row) for row in samples(10, 0.3, mean, 80)] for mean in (0, 1))
    assert equal.count(Verdict.NO_EFFECT) / 80 == pytest.approx(0.8 - 0.05, abs=0.15)
    assert equal.count(Verdict.DIFFERENT) / 80 < 0.15
    assert other.count(Verdict.DIFFERENT) == 80
    few = {verdict(row) for row in samples(FEWEST_PAIRS - 1, 0.01, 5, 20)}
    assert few == {Verdict.INCONCLUSIVE}


def verdict(differences):
    (judged,) = judge(
        [
            compare(
                pd.Series(differences), pd.Series(0.0, index=range(len(differences))), CLASSIFICATION.margin
            )
        ]
    )
    return words.on_score(judged, CLASSIFICATION.unit).verdict


def test_ranks_say_nothing_below_six_pairs():
    """The smallest p-value of Wilcoxon's test of n pairs is 2 / 2^n."""
    smallest = [stats.wilcoxon(np.arange(1.0, n + 1)).pvalue for n in (5, 6)]
    assert smallest == pytest.approx([2 / 2**5, 2 / 2**6])
    assert smallest[0] > LEVEL > smallest[1]
