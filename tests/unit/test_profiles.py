"""Performance profiles: of costs, by hand, and profiles.csv, for each target."""

import math

import numpy as np
import pandas as pd
import pytest

from thinwire.report.rows.to_target import profiles
from thinwire.report.statistics.speed import profile, ratios, score

INF = math.inf


def cell(workers, method, payload, seconds=(math.nan,) * 3):
    """The rows of a method in a cell, for its three targets."""
    place = {"dataset": "digits", "model": "cnn", "workers": workers, "nodes": 1, "kind": "measured"}
    place["method"] = method
    return [
        place | {"payload_bytes_median": p, "train_seconds_median": s, "target_accuracy_percent": workers + i}
        for i, (p, s) in enumerate(zip(payload, seconds))
    ]


def table_of(*cells):
    return profiles(pd.DataFrame([row for rows in cells for row in rows]))


def of(table, metric, target):
    return table[(table.metric == metric) & (table.target_of_baseline_percent == target)]


def test_cells_within_a_factor_of_the_cheapest_by_hand():
    table = table_of(
        cell(4, "ssgd", (30, 30, 30)),
        cell(4, "thin", (10, 20, INF)),
        cell(8, "ssgd", (10, 10, 10)),
        cell(8, "thin", (5, 15, 25)),
        cell(8, "late", (20, 20, 20)),
    )
    first = of(table, "payload_bytes", 95)
    assert list(first.method) == ["ssgd", "thin", "late"]
    assert list(first.cells) == [2, 2, 1]
    assert list(first.within_1) == [0, 1, 0]
    assert list(first.within_2) == [0.5, 1, 0]
    assert list(first.within_4) == [1, 1, 1]
    assert list(first.score) == pytest.approx([(1 / 3 + 2 / 3) / 2, 1, 0])
    last = of(table, "payload_bytes", 99)
    assert list(last.within_4) == [1, 0.5, 1]
    assert set(table.metric) == {"payload_bytes"}


def test_seconds_have_profiles_where_runs_have_times():
    timed = cell(8, "ssgd", (1, 1, 1), (4, 4, 4)), cell(8, "thin", (1, 1, 1), (8, 2, 2))
    table = table_of(cell(4, "ssgd", (1, 1, 1)), cell(4, "thin", (1, 1, 1)), *timed)
    assert set(table.cells[table.metric == "train_seconds"]) == {1}
    assert list(of(table, "train_seconds", 95).within_1) == [1, 0]
    assert list(of(table, "train_seconds", 98).within_1) == [0, 1]
    assert set(table.cells[table.metric == "payload_bytes"]) == {2}


def test_no_targets_are_an_empty_table():
    assert profiles(pd.DataFrame(cell(4, "ssgd", (1, 1, 1)))[:0]).empty


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
