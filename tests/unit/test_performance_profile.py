"""Performance profiles, by hand."""

import math

import numpy as np
import pandas as pd
import pytest

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
