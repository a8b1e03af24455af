"""Paired comparisons, by hand and by other libraries; and a rerun beside committed results."""

import math
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import ttost_paired

from thinwire.audit import compare as audit
from thinwire.audit.compare import PAYLOAD
from thinwire.base.errors import UserError
from thinwire.report import paired
from thinwire.report.paired import detectable_in_sd, of_mean
from thinwire.report.report_files import fixed, table_digits

ACCURACY, TASK = "accuracy_percent", {"task": "classification"}
compare = partial(paired.compare, margin=0.3)

NAN = math.nan


def test_a_comparison_by_hand():
    """Differences 1, 2 and 3: mean 2, sd 1, standard error 1/sqrt(3); t(2) has 97.5 % below 4.302653."""
    found = compare(pd.Series([91.0, 92, 93]), pd.Series([90.0, 90, 90]))
    assert (found.n, found.mean, found.sd) == (3, 2, pytest.approx(1))
    half = 4.302653 / math.sqrt(3)
    assert [found.low, found.high] == pytest.approx([2 - half, 2 + half])
    # t(2) exceeds 2 sqrt(3) on both sides together with 1 - t / sqrt(t^2 + 2), t^2 = 12.
    assert found.p_different == pytest.approx(1 - math.sqrt(12 / 14))
    assert found.detectable() == pytest.approx(3.264, abs=1e-3)


def test_the_tests_are_those_of_scipy_and_statsmodels():
    theirs = pd.Series([90.0, 91.5, 92, 88, 90.5])
    ours = theirs + np.array([0.1, 0.0, -0.1, 0.2, 0.05])
    found = compare(ours, theirs)
    test = stats.ttest_rel(ours, theirs)
    assert found.p_different == pytest.approx(test.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(test.confidence_interval(0.95)))
    p_same, (_, p_above, _), _ = ttost_paired(ours.to_numpy(), theirs.to_numpy(), -0.3, 0.3)
    assert (found.p_same, found.p_not_inferior) == pytest.approx((p_same, p_above))
    wider = compare(ours, theirs, margin=0.5)
    assert wider.p_same < found.p_same
    assert wider.p_different == found.p_different
    many = [0.04, 0.001, 0.3, 0.04, 0.012, 0.9, 0.02]
    assert paired.holm(many) == pytest.approx(multipletests(many, method="holm")[1])


def test_only_repetitions_that_both_have_are_pairs():
    ours = pd.Series([95.0, 90, NAN, 92, 10], index=[3, 0, 1, 2, 9])
    theirs = pd.Series([89.0, 88, 90, 91, NAN], index=[0, 1, 2, 3, 9])
    found = compare(ours, theirs)
    assert found.n == 3  # repetitions 0, 2 and 3: 1, 2 and 4
    assert found.mean == pytest.approx(7 / 3)
    # What cannot be a pair is refused.
    with pytest.raises(ValueError, match="infinite"):
        compare(pd.Series([math.inf, 1]), pd.Series([1.0, 1]))
    with pytest.raises(ValueError, match="twice"):
        compare(pd.Series([1.0, 1], index=[0, 0]), pd.Series([1.0, 1], index=[0, 0]))


def test_equal_results_in_every_pair_are_the_same_and_not_unknown():
    found = compare(pd.Series([90.0, 91, 95]), pd.Series([90.0, 91, 95]))
    assert (found.mean, found.sd, found.low, found.high, found.detectable()) == (0, 0, 0, 0, 0)
    assert (found.p_different, found.p_same, found.p_not_inferior) == (1, 0, 0)
    # Equal differences of exact values are sure.
    found = compare(pd.Series([1.1] * 5), pd.Series([1.0] * 5))
    assert found.p_different < 1e-9
    assert [found.low, found.high] == pytest.approx([0.1, 0.1])


def test_equal_differences_have_the_largest_spread_that_their_resolution_hides():
    """One image fewer in each of five pairs is no certainty, ten images fewer are: t is 2, and 20."""
    theirs = pd.Series([98.7, 98.3, 97.2, 98.9, 99.1])
    one, ten = (compare(theirs - 0.1 * images, theirs, resolution=0.1) for images in (1, 10))
    assert one.sd == ten.sd == pytest.approx(0.1 * math.sqrt(5 / 4))
    assert one.p_different == pytest.approx(2 * stats.t.sf(2, 4))
    assert ten.p_different == pytest.approx(2 * stats.t.sf(20, 4))
    assert (one.p_not_inferior, one.p_same) == pytest.approx([stats.t.sf(4, 4)] * 2)
    assert ten.p_not_inferior == ten.p_same == pytest.approx(stats.t.cdf(14, 4))
    assert one.low < one.mean < 0 < one.high
    assert ten.low < ten.mean < ten.high < 0
    assert one.detectable() == ten.detectable() == pytest.approx(detectable_in_sd(5) * one.sd)


@pytest.mark.parametrize(("ours", "mean"), [([], NAN), ([NAN], NAN), ([92.0], 2)])
def test_less_than_two_pairs_have_no_spread_and_no_p(ours, mean):
    found = compare(pd.Series(ours, dtype=float), pd.Series([90.0, 91]))
    assert found.n == (0 if math.isnan(mean) else 1)
    assert found.mean == pytest.approx(mean, nan_ok=True)
    unknown = (found.sd, found.low, found.high, found.p_different, found.p_same, found.p_not_inferior)
    assert all(math.isnan(value) for value in (*unknown, found.detectable()))


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (1.005, 2, "1.00"),  # the float is a little smaller
        (0.125, 2, "0.13"),
        (-31.25, 1, "-31.3"),
        (-0.004, 2, "0.00"),
        (1234567.5, 0, "1234568"),
        (NAN, 2, "nan"),
        (math.inf, 2, "inf"),
    ],
)
def test_numbers_are_written_as_on_the_page_of_results(value, digits, text):
    assert fixed(value, digits) == text


def test_the_last_digits_of_a_sum_do_not_decide():
    assert table_digits(-1.0050000000000003) == table_digits(-1.0049999999999997) == -1.005


CELL = {"suite": "demo", "dataset": "digits", "model": "cnn", "workers": 4, "nodes": 1}


def runs(method, accuracies, payload=100.0, status="done"):
    about = {**CELL, **TASK, "method": method, "status": status, PAYLOAD: payload}
    return pd.DataFrame([about | {"repetition": i, ACCURACY: value} for i, value in enumerate(accuracies)])


@pytest.fixture
def compared(monkeypatch, tmp_path):
    """Two tables of runs, compared by method and metric."""

    def compared(committed, rerun):
        tables = iter((committed, rerun))
        monkeypatch.setattr(audit, "_runs", lambda folder: next(tables))
        return audit.compare(tmp_path, tmp_path).set_index(["method", "metric"])

    return compared


SPREAD = [97.8, 98.0, 98.2, 97.9, 98.1]


def test_equal_runs_are_identical_and_others_are_judged_by_the_spread(compared):
    committed = pd.concat([runs(name, SPREAD) for name in ("a", "b", "c", "d")])
    less, gone = runs("c", [90.0], payload=90.0), runs("d", [NAN], status="diverged")
    rerun = pd.concat([runs("a", SPREAD[:2]), runs("b", [98.1]), less, gone])
    found = compared(committed, rerun).verdict.unstack()
    assert found[ACCURACY].to_dict() == {"a": "identical", "b": "inside", "c": "outside", "d": "outside"}
    assert found[PAYLOAD].to_dict() == {"a": "identical", "b": "identical", "c": "outside", "d": "outside"}
    diverged = runs("a", [NAN] * 2, payload=NAN, status="diverged")
    assert set(compared(diverged, diverged).verdict) == {"identical"}
    # One committed run tells nothing about another value.
    assert compared(runs("a", [98.0]), runs("a", [97.0])).verdict["a", ACCURACY] == "inconclusive"
    # Repetitions that the reference does not have are never identical.
    more = runs("a", [*SPREAD, 98.0])
    assert compared(runs("a", SPREAD), more).verdict["a", ACCURACY] == "inside"
    with pytest.raises(UserError, match="have no cell in common"):
        compared(runs("a", SPREAD), runs("b", SPREAD))


def test_intervals_end_where_values_are_impossible(compared):
    wide = pd.concat([runs("a", [0.1, 99.9]).assign(**{PAYLOAD: [1.0, 200.0]}), runs("b", [98.0])])
    table = compared(wide, pd.concat([runs("a", [50.0]), runs("b", [97.0])]))
    assert set(zip(table.low, table.high)) == {(0, 100), (0, table.high["a", PAYLOAD]), (0, math.inf)}


@pytest.mark.parametrize(("there", "further"), [(10, 1), (10, 3), (3, 3)])
def test_the_interval_holds_the_mean_of_further_runs_as_often_as_it_says(there, further):
    random = np.random.default_rng(7)
    inside = []
    for _ in range(4000):
        low, high = of_mean(pd.Series(random.normal(98, 0.5, there)), further, 0.05)
        inside.append(low <= random.normal(98, 0.5, further).mean() <= high)
    assert abs(np.mean(inside) - 0.95) < 0.012
