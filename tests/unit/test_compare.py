"""A rerun beside committed results: what is called identical, inside and outside, and how often by chance."""

import math

import numpy as np
import pandas as pd
import pytest

from thinwire.audit import compare
from thinwire.audit.compare import ACCURACY, PAYLOAD
from thinwire.base.errors import UserError
from thinwire.report.statistics.paired import of_mean

CELL = {"suite": "demo", "dataset": "digits", "model": "cnn", "workers": 4, "nodes": 1}


def runs(method, accuracies, payload=100.0, status="done"):
    return pd.DataFrame(
        [
            {**CELL, "method": method, "repetition": i, "status": status, ACCURACY: value, PAYLOAD: payload}
            for i, value in enumerate(accuracies)
        ]
    )


@pytest.fixture
def compared(monkeypatch, tmp_path):
    """Two tables of runs, compared by method and metric."""

    def compared(committed, rerun):
        tables = iter((committed, rerun))
        monkeypatch.setattr(compare, "_runs", lambda folder: next(tables))
        return compare.compare(tmp_path, tmp_path).set_index(["method", "metric"])

    return compared


@pytest.fixture
def verdicts(compared):
    """The verdicts of two tables of runs, by method and metric."""
    return lambda committed, rerun: compared(committed, rerun).verdict.to_dict()


SPREAD = [97.8, 98.0, 98.2, 97.9, 98.1]


def test_equal_runs_are_identical_and_others_are_judged_by_the_spread(verdicts):
    committed = pd.concat([runs(name, SPREAD) for name in ("a", "b", "c", "d")])
    rerun = pd.concat(
        [
            runs("a", SPREAD[:2]),
            runs("b", [98.1]),
            runs("c", [90.0], payload=90.0),
            runs("d", [float("nan")], status="diverged"),
        ]
    )
    assert verdicts(committed, rerun) == {
        ("a", ACCURACY): "identical",
        ("a", PAYLOAD): "identical",
        ("b", ACCURACY): "inside",
        ("b", PAYLOAD): "identical",
        ("c", ACCURACY): "outside",
        ("c", PAYLOAD): "outside",
        ("d", ACCURACY): "outside",
        ("d", PAYLOAD): "outside",
    }


def test_runs_that_diverge_on_both_sides_are_identical(verdicts):
    diverged = runs("a", [float("nan")] * 2, payload=float("nan"), status="diverged")
    assert set(verdicts(diverged, diverged).values()) == {"identical"}


def test_intervals_end_where_values_are_impossible(compared):
    wide = pd.concat([runs("a", [0.1, 99.9]).assign(**{PAYLOAD: [1.0, 200.0]}), runs("b", [98.0])])
    table = compared(wide, pd.concat([runs("a", [50.0]), runs("b", [97.0])]))
    assert set(zip(table.low, table.high)) == {(0, 100), (0, table.high["a", PAYLOAD]), (0, math.inf)}


def test_one_committed_run_tells_nothing_about_another_value(verdicts):
    assert verdicts(runs("a", [98.0]), runs("a", [97.0]))["a", ACCURACY] == "cannot_be_told"


def test_repetitions_that_the_reference_does_not_have_are_never_identical(verdicts):
    more = runs("a", [*SPREAD, 98.0])
    assert verdicts(runs("a", SPREAD), more)["a", ACCURACY] == "inside"


def test_folders_without_a_common_cell_are_refused(verdicts):
    with pytest.raises(UserError, match="have no cell in common"):
        verdicts(runs("a", SPREAD), runs("b", SPREAD))


@pytest.mark.parametrize(("there", "further"), [(10, 1), (10, 3), (3, 3)])
def test_the_interval_holds_the_mean_of_further_runs_as_often_as_it_says(there, further):
    random = np.random.default_rng(7)
    inside = []
    for _ in range(4000):
        low, high = of_mean(pd.Series(random.normal(98, 0.5, there)), further, 0.05)
        inside.append(low <= random.normal(98, 0.5, further).mean() <= high)
    assert abs(np.mean(inside) - 0.95) < 0.012
