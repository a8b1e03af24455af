"""Performance profiles and aggregates over cells, by hand."""

import math

import numpy as np
import pandas as pd
import pytest

from thinwire.statistics.interquartile_mean import aggregate
from thinwire.statistics.performance_profile import profile, ratios, score

INF = math.inf


def test_ratios_profiles_and_scores_by_hand():
    costs = pd.DataFrame({"thin": [10, 50, INF, INF], "ssgd": [20, 10, 5, INF]})
    found = ratios(costs)
    assert list(found.thin) == [1, 5, INF, INF]
    assert list(found.ssgd) == [2, 1, 1, INF]
    curves = profile(found, [1, 2, 4, 5])
    assert list(curves.thin) == [0.25, 0.25, 0.25, 0.5]
    assert list(curves.ssgd) == [0.5, 0.75, 0.75, 0.75]
    assert score(found).thin == pytest.approx(1 / 4)
    assert score(found).ssgd == pytest.approx((2 / 3 + 1 + 1) / 4)


def test_a_score_is_the_integral_of_the_profile():
    found = ratios(pd.DataFrame(np.random.default_rng(0).uniform(1, 6, (20, 3))))
    factors = np.linspace(1, 4, 3001)
    middle = (factors[1:] + factors[:-1]) / 2
    assert score(found).to_numpy() == pytest.approx(profile(found, middle).mean().to_numpy(), abs=1e-3)


def test_methods_that_need_nothing_are_the_best():
    found = ratios(pd.DataFrame({"a": [0.0, 0], "b": [0.0, 7]}))
    assert list(found.a) == [1, 1]
    assert list(found.b) == [1, INF]


def test_a_cell_without_runs_of_a_method_is_not_in_its_profile():
    found = ratios(pd.DataFrame({"a": [4.0, 4], "b": [2.0, math.nan]}))
    assert list(found.a) == [2, 1]
    assert list(profile(found, [1, 2]).b) == [1, 1]
    assert score(found).b == 1


def test_the_interquartile_mean_is_that_of_the_middle_half_of_the_pairs():
    ours = pd.Series([0.0, 1, 2, 3, 4, 5, 6, 900], index=list("abcdefgh"))
    found = aggregate(ours, pd.Series(0.0, index=list("hgfedcbax")))
    assert (found.cells, found.interquartile_mean) == (8, 3.5)
    assert math.isnan(found.low)
    assert math.isnan(found.high)


def test_from_ten_cells_up_there_is_an_interval_and_it_repeats():
    rng = np.random.default_rng(1)
    theirs = pd.Series(rng.normal(90, 20, 12))
    ours = theirs + rng.normal(1, 0.2, 12)
    found = aggregate(ours, theirs)
    assert 0.7 < found.low < found.interquartile_mean < found.high < 1.3, "cells are paired"
    assert found == aggregate(ours, theirs)
    assert aggregate(theirs, theirs) == (12, 0, 0, 0)
    assert math.isnan(aggregate(ours[:9], theirs).low)
    assert aggregate(ours[:0], theirs).cells == 0
