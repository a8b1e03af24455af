"""Tests are as powerful as docs/statistics.md says, in simulated comparisons with normal errors."""

import math
import re

import numpy as np
import pytest

from benchmarks import committed_tables
from tests.docs import pages
from thinwire.base.learning import CLASSIFICATION
from thinwire.plugins import ROOT
from thinwire.report.paired import LEVEL, POWER, detectable_in_sd, of_moments
from thinwire.report.report_files import fixed
from thinwire.report.rows.collect import read_summary

SAMPLES = 20_000
# Four standard errors of a share that is estimated from as many samples.
NOISE = 4 * 0.5 / math.sqrt(SAMPLES)
PAGE = (ROOT / "docs/statistics.md").read_text()


def samples(n, sd=1.0, mean=0.0):
    return np.random.default_rng(n).normal(mean, sd, (SAMPLES, n))


def t_tests(differences, margin, floor=0.0):
    sd = differences.std(axis=1, ddof=1)
    return of_moments(differences.shape[1], differences.mean(axis=1), sd, margin, floor)


@pytest.mark.parametrize(("tests", "floor"), [(1, 0.0), (11, 0.0), (11, 0.5)])
@pytest.mark.parametrize("n", [3, 5, 10, 20, 30])
def test_the_detectable_difference_is_found_as_often_as_it_says(n, tests, floor):
    found = t_tests(samples(n, mean=floor + detectable_in_sd(n, tests)), CLASSIFICATION.margin, floor)
    assert np.mean(found.p_different < LEVEL / tests) == pytest.approx(POWER, abs=NOISE)


@pytest.mark.parametrize("test", ["p_different", "p_same", "p_not_inferior"])
def test_what_the_noise_floor_alone_can_do_is_seldom_called_an_effect(test):
    """At the floor, and at the margin less the floor, 2.5 or 5 % of the tests are wrong."""
    margin, floor = 0.3, 0.1
    mean = floor if test == "p_different" else floor - margin
    found = getattr(t_tests(samples(10, mean=mean, sd=0.1), margin, floor), test)
    assert np.mean(found < LEVEL) == pytest.approx(0.025 if test == "p_different" else 0.05, abs=NOISE)


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
    for (_, sizes), tests in zip(rows_of("detectable"), (1, 15), strict=True):
        assert sizes == {n: round(detectable_in_sd(n, tests), 2) for n in sizes}


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
