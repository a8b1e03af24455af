"""The table of times: speed-ups over the better baseline, and seconds to the target."""

import math
from itertools import chain

import pandas as pd
import pytest

from tests.simulated import row, rows, table_of_times
from thinwire.base.errors import UserError
from thinwire.base.learning import CLASSIFICATION
from thinwire.report.rows import times
from thinwire.report.rows.comparisons import speed_ups
from thinwire.report.rows.quantities import faster_ranges
from thinwire.simulation import simulated_file

BASELINES = ["ssgd", "ssgd_bf16"]


def table_of(*made, **more):
    return table_of_times(*made, baselines=BASELINES, **more)


def run(method, seconds, **more):
    place = {"dataset": "digits", "model": "cnn", "workers": 8, "nodes": 2, "cluster": None}
    about = {"kind": "measured", "method": method, "status": "done", "steps": 100, "train_seconds": seconds}
    return {**place, **about, **more}


def test_the_speed_up_is_over_the_faster_baseline_of_the_same_place():
    methods = [*BASELINES, "thin"]
    slow = [row(method, ms) for method, ms in zip(methods, (10, 8, 4))]
    fast = [row(method, ms, cluster="fast") for method, ms in zip(methods, (2, 3, 4))]
    table = table_of(*slow, *fast, row("thin", 4, cluster="lonely"))
    assert list(table.speed_up[:6]) == pytest.approx([0.8, 1, 2, 1, 2 / 3, 0.5])
    assert list(table.baseline[:6]) == ["ssgd_bf16"] * 3 + ["ssgd"] * 3
    assert math.isnan(table.speed_up[6]), "no baseline is there"
    assert table.exposed_seconds[0] == pytest.approx(3e-3), "includes the wait for servers"
    # Rows that are compared stand together in the order of the methods.
    made = [row(method, cluster=c) for method in ("ssgd", "a") for c in ("z", "b")]
    table = table_of(*made, runs=[run("ssgd", 1.0)])
    rows_of = [*zip(table.cluster, table.method)]
    assert rows_of == [("z", "ssgd"), ("z", "a"), ("b", "ssgd"), ("b", "a"), ("", "ssgd")]


def test_measured_runs_have_rows_of_their_own_and_are_compared_with_each_other_only():
    runs = [run("ssgd", 4.0), run("ssgd", 9.0), run("thin", 3.0), run("crowded", math.nan)]
    table = table_of(row("ssgd", 10), row("thin", 1), runs=runs)
    measured = table[table.kind == "measured"].set_index("method")
    assert list(measured.index) == ["ssgd", "thin"], "a run without a time is no row"
    assert measured.step_seconds["ssgd"] == pytest.approx(0.06)
    assert measured.speed_up["thin"] == pytest.approx(2)
    assert (measured.cluster == "").all()
    assert list(table[table.kind == "simulated"].speed_up) == [1, 10]
    # Emulated runs name their cluster.
    runs = [run("ssgd", 5.0, kind="emulated", cluster="emulated_100m")]
    table = table_of(row("ssgd"), runs=runs)
    assert list(table.kind) == ["simulated", "emulated"]
    assert table.cluster[1] == "emulated_100m"


def test_times_and_speed_ups_agree_on_the_faster_baseline():
    """By hand: one baseline has the smaller arithmetic mean, and the other the smaller geometric mean."""
    steady, varying = [5.0, 5.0], [1.0, 10.0]
    runs = [
        run(method, seconds, repetition=repetition)
        for method, each in (("ssgd", steady), ("ssgd_bf16", varying), ("thin", [2.0, 3.0]))
        for repetition, seconds in enumerate(each)
    ]
    table = table_of(row("ssgd"), runs=runs)
    of_times = table[table.kind == "measured"].set_index("method").loc["thin"]
    of_pairs = speed_ups(pd.DataFrame(runs), BASELINES).set_index("method").loc["thin"]
    assert of_times.baseline == of_pairs.against == "ssgd_bf16"
    assert of_times.speed_up == pytest.approx(of_pairs.speed_up)


def test_seconds_to_the_target_are_steps_times_simulated_seconds_and_infinite_for_a_miss():
    table = table_of(row("ssgd"), row("thin"), to_target=lambda place, method: (99.0, math.inf))
    assert (table.seconds_to_target == math.inf).all()
    assert times.markdown(table, "Title", BASELINES, CLASSIFICATION).count("| not reached ") == 2
    table = table_of(row("ssgd", 20), to_target=lambda place, method: (89.0, 50.0))
    assert table.seconds_to_target[0] == pytest.approx(1.0)
    assert "| 1.000 " in times.markdown(table, "Title", BASELINES, CLASSIFICATION)


def test_the_table_shows_own_rates_and_the_most_workers_that_have_learned():
    made = [row("ssgd", 10, workers=w, own_rate=own) for w in (4, 8, 64) for own in (True, False)]
    learned = table_of(*made, to_target=lambda place, m: (90.0, 1.0) if place[2] < 9 else (math.nan,) * 2)
    assert list(times.headline(learned).workers) == [8]
    assert times.headline(learned).own_rate.all()
    assert list(times.headline(table_of(*made)).workers) == [64]
    assert "5 rows with other numbers" in times.markdown(learned, "Title", BASELINES, CLASSIFICATION)


def test_every_row_says_how_and_by_which_cluster(tmp_path):
    table = table_of(row("ssgd"), runs=[run("ssgd", 5.0)])
    times.write(table, "Title", BASELINES, tmp_path, CLASSIFICATION, ["4 workers shared 2 cores of a"])
    written = pd.read_csv(tmp_path / "times.csv", keep_default_na=False)
    assert list(written) == [CLASSIFICATION.columns.get(name, name) for name in times.COLUMNS]
    assert list(zip(written.kind, written.cluster)) == [("simulated", "ethernet_1g"), ("measured", "")]
    text = (tmp_path / "times.md").read_text()
    assert "Runs without a time: 4 workers shared 2 cores of a." in text


@pytest.mark.parametrize(
    ("speed_ups", "faster"),
    [
        ((2, 0.5), [0, 10]),  # log-log: half way between 1 and 100
        ((4, 0.5), [0, 100 ** (2 / 3)]),
        ((0.5, 2), [10, math.inf]),
        ((2, 1.5), [0, math.inf]),
        ((2, 1), [0, 100]),
        ((0.5, 0.5), []),
        ((1, 1), []),
    ],
)
def test_the_break_even_is_where_the_speed_up_passes_1(speed_ups, faster):
    found = faster_ranges([1, 100], speed_ups)
    assert [*chain(*found)] == pytest.approx(faster)


def test_every_range_in_which_a_method_is_faster_is_found():
    rates = [1, 10, 100, 1000]
    assert faster_ranges(rates, [0.5, 2, 2, 0.5]) == [pytest.approx((10**0.5, 100 * 10**0.5))]
    lowest, highest = faster_ranges(rates, [2, 0.5, 2, 2])
    assert lowest == pytest.approx((0, 10**0.5))
    assert highest == pytest.approx((10 * 10**0.5, math.inf))


def test_a_file_is_read_as_it_was_written(tmp_path):
    made = rows(row("ssgd"), row("12e4", own_rate=False, baseline="007"))
    simulated_file.write(made, tmp_path, "a/b")
    pd.testing.assert_frame_equal(simulated_file.read(tmp_path, "a/b"), made, check_dtype=False)
    assert simulated_file.read(tmp_path, "other") is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.replace("step_seconds", "seconds"), "has no column step_seconds: run `thinwire"),
        (lambda text: text.splitlines()[0] + "\n", "has no rows: run `thinwire simulate demo "),
        (lambda text: "", "cannot be read"),
    ],
)
def test_a_file_that_lacks_something_is_one_sentence(tmp_path, change, words):
    path = simulated_file.write(rows(row("ssgd")), tmp_path, "demo")
    path.write_text(change(path.read_text()))
    with pytest.raises(UserError, match=words):
        simulated_file.read(tmp_path, "demo")
