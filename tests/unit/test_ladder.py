"""The ladder of a suite: its key, its table, and its figure."""

import math

import pandas as pd
import pytest

from tests.simulated import row, rows
from thinwire.config.suite import load
from thinwire.config.suite_problems import ladder_problems
from thinwire.report.figures import rates
from thinwire.report.rows import times

RUNGS = ["naive", "ring", "levels"]
RUN = {
    "status": "done",
    "dataset": "digits",
    "model": "cnn",
    "workers": 8,
    "nodes": 2,
    "cluster": "ethernet_1g",
    "kind": "emulated",
    "steps": 10,
}


def table_of(*made, runs=()):
    timed = pd.DataFrame([RUN | run for run in runs]) if runs else pd.DataFrame({"status": []})
    simulated = rows(*made) if made else None
    whole = times.times(simulated, timed, ["ring"], lambda place, method: (math.nan, math.nan))
    return times.ladder(whole, RUNGS)


def test_each_row_is_compared_with_the_first_rung():
    table = table_of(row("other", 5), row("levels", 8), row("naive", 40), row("ring", 10))
    assert list(table.method) == ["naive", "ring", "levels", "other"]
    assert list(table.rung)[:3] == [0, 1, 2]
    assert pd.isna(table.rung[3])
    assert list(table.first_over_this) == [1, 4, 5, 8]


def test_kinds_and_clusters_are_never_compared_with_each_other():
    runs = [{"method": "naive", "train_seconds": 2.0}, {"method": "ring", "train_seconds": 0.5}]
    table = table_of(row("naive", 40), row("ring", 20), row("ring", 5, cluster="wan_100m"), runs=runs)
    found = table[table.method == "ring"].set_index(["kind", "cluster"]).first_over_this
    assert found["simulated", "ethernet_1g"] == 2
    assert found["emulated", "ethernet_1g"] == pytest.approx(4)
    assert math.isnan(found["simulated", "wan_100m"])


def test_rates_that_are_not_a_clusters_own_are_left_out():
    table = table_of(row("naive", 40), row("ring", 5, rate_gbit_per_second=100.0, own_rate=False))
    assert list(table.method) == ["naive"]


def test_the_table_says_how_its_rows_were_made(tmp_path):
    times.write_ladder(table_of(row("naive", 40), row("ring", 10)), "Title", tmp_path)
    text = (tmp_path / "ladder.md").read_text()
    assert "simulated" in text
    assert "4.00" in text
    assert text.startswith("# Ladder. Title")
    assert list(pd.read_csv(tmp_path / "ladder.csv").columns) == times.LADDER_COLUMNS


def test_a_bar_is_labelled_with_its_ratio_and_its_kind_is_stated(draw):
    runs = [{"method": "naive", "train_seconds": 2.0}, {"method": "ring", "train_seconds": 0.5}]
    figure = draw(rates.write_ladder, table_of(row("naive", 40), row("ring", 20), runs=runs))
    simulated, emulated = figure.axes
    assert [text.get_text().strip() for text in simulated.texts] == ["1.00", "2.00"]
    assert [text.get_text().strip() for text in emulated.texts] == ["1.00", "4.00"]
    assert "simulated" in simulated.get_title()
    assert "emulated" in emulated.get_title()
    # A simulated bar has four parts, and a bar of runs is plain.
    assert (len(simulated.patches), len(emulated.patches)) == (8, 2)


def test_without_times_the_figure_says_so(draw):
    figure = draw(rates.write_ladder, table_of())
    assert "No step of a rung has a time" in figure.texts[0].get_text()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"ladder": ["n0_naiv"]}, "the suite has no method 'n0_naiv'; the nearest is n0_naive"),
        ({"transport": "inprocess", "cluster": None, "simulate": None}, "ladder: it needs times"),
    ],
)
def test_a_ladder_that_cannot_be_drawn_is_refused(changes, problem):
    suite = load("claims/hsgd_ladder").model_copy(update=changes)
    assert any(problem in sentence for sentence in ladder_problems(suite))
