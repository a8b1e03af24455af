"""Times are compared in blocks with the faster baseline; simulated times are not tested at all."""

import math

import numpy as np
import pandas as pd
import pytest

from thinwire.report.rows.comparisons import SPEED_UP_COLUMNS, speed_ups
from thinwire.report.statistics.speed import compare_speed

BASELINES = ["ssgd", "ssgd_bf16"]


def block(repetition, kind="measured", status="done", **seconds):
    """The runs of a block, of 10 steps each, with the seconds of each method."""
    place = {"dataset": "digits", "model": "cnn", "workers": 4, "nodes": 2, "cluster": None, "kind": kind}
    about = {**place, "repetition": repetition, "status": status, "steps": 10}
    return [{**about, "method": method, "train_seconds": s} for method, s in seconds.items()]


def blocks(n, **seconds):
    """Blocks whose machines differ in speed by factors up to 16, which pairs cancel."""
    slow = 2.0 ** (np.arange(n) % 5)
    noise = 1 + 0.01 * (np.arange(n) % 3)
    made = (
        block(i, **{m: s * slow[i] * (noise[i] if m == "thin" else 1) for m, s in seconds.items()})
        for i in range(n)
    )
    return pd.DataFrame([run for runs in made for run in runs])


def test_the_speed_up_is_the_geometric_mean_over_blocks_against_the_faster_baseline():
    runs = pd.DataFrame(block(0, ssgd=4, ssgd_bf16=3, thin=1) + block(1, ssgd=5, ssgd_bf16=3, thin=0.25))
    against, found = compare_speed(runs, "thin", BASELINES)
    assert against == "ssgd_bf16"
    assert math.exp(found.mean) == pytest.approx(6)  # sqrt(3 x 12)
    assert compare_speed(runs, "ssgd", BASELINES)[0] == "ssgd_bf16"
    assert compare_speed(runs[runs.method == "thin"], "thin", BASELINES) is None


@pytest.mark.parametrize("change", [{"kind": "inprocess"}, {"kind": "simulated"}, {"status": "failed"}])
def test_only_times_of_runs_are_compared(change):
    runs = blocks(6, ssgd=4, thin=1)
    assert compare_speed(runs, "thin", BASELINES) is not None
    assert compare_speed(runs.assign(**change), "thin", BASELINES) is None
    assert compare_speed(runs.drop(columns="train_seconds"), "thin", BASELINES) is None


def test_the_table_says_faster_only_where_enough_blocks_say_it():
    table = speed_ups(blocks(6, ssgd=4, ssgd_bf16=5, thin=2), BASELINES).set_index("method")
    assert table.words["thin"] == f"{table.speed_up['thin']:.2f} times faster"
    assert table.speed_up_low["thin"] < table.speed_up["thin"] < table.speed_up_high["thin"]
    assert list(table.against) == ["ssgd"] * 3
    few = speed_ups(blocks(4, ssgd=4, thin=2), BASELINES).set_index("method")
    assert few.words["thin"] == "cannot be told: 4 pairs, and 5 are needed at least"
    assert few.p_different_holm.isna().all()


def test_the_fastest_baseline_has_a_speed_up_of_1_and_no_test():
    table = speed_ups(blocks(6, ssgd=4, ssgd_bf16=3, thin=2), BASELINES).set_index("method")
    fastest = table.loc["ssgd_bf16"]
    assert (fastest.against, fastest.words) == ("ssgd_bf16", "the fastest baseline")
    assert fastest.n == 6
    assert list(fastest[["speed_up", "speed_up_low", "speed_up_high"]]) == [1, 1, 1]
    assert fastest[["p_different", "p_different_holm", "detectable_factor"]].isna().all()
    # It is not in the family of those that are judged together.
    assert table.p_different_holm["ssgd"] == pytest.approx(2 * table.p_different["ssgd"], rel=1e-6, abs=0)


def test_a_suite_without_times_has_an_empty_table():
    runs = blocks(6, ssgd=4, thin=2).assign(kind="inprocess").drop(columns="train_seconds")
    table = speed_ups(runs, BASELINES)
    assert table.empty
    assert list(table) == list(SPEED_UP_COLUMNS)
