"""The figures of simulated times: hollow points, thick baselines, and the ladder of a suite."""

import math

import pandas as pd
import pytest

from tests.simulated import row, table_of_times
from thinwire.report import report
from thinwire.report.figures import steps
from thinwire.report.rows import times

BASELINES = ["ssgd", "ssgd_bf16"]
METHODS = [*BASELINES, *(f"m{i}" for i in range(9))]
ALWAYS = ["speed_up_simulated", "step_breakdown"]


def table_of(workers=(8,), rates=(), runs=(), methods=METHODS):
    made = [
        row(method, 10 + place, workers=w, rate_gbit_per_second=rate or 1.0, own_rate=not rate)
        for w in workers
        for rate in (0, *rates)
        for place, method in enumerate(methods)
    ]
    return table_of_times(*made, runs=runs, baselines=BASELINES)


@pytest.fixture
def drawn(draw_all):
    return lambda table, **options: draw_all(report.write_simulated_figures, table, BASELINES, **options)


def texts(figure):
    return " ".join(text.get_text() for text in figure.texts)


@pytest.mark.parametrize(
    ("options", "more"),
    [({}, []), ({"workers": (2, 8)}, ["speed_up_over_workers"]), ({"rates": (0.1, 10)}, ["bandwidth"])],
)
def test_the_rows_decide_which_figures_there_are_and_all_say_simulated(drawn, options, more):
    figures = drawn(table_of(**options, methods=METHODS[:3]))
    assert sorted(figures) == sorted([*ALWAYS, *more])
    assert all("simulated" in texts(figure) for figure in figures.values())


def test_simulated_points_are_hollow_and_measured_ones_are_full_and_apart(drawn):
    place = PLACE | {"cluster": None, "kind": "measured"}
    runs = [place | {"method": m, "train_seconds": s} for m, s in (("ssgd", 4.0), ("m0", 2.0))]
    figure = drawn(table_of(runs=runs))["speed_up_simulated"]
    fills = {}
    for axes in figure.axes:
        for line in axes.get_lines():
            if line.get_marker() != "None" and len(line.get_xdata()):
                fills.setdefault(axes.get_title(), set()).add(line.get_markerfacecolor() == "white")
                assert line.get_linestyle() == "None"
    kinds = {"simulated": {True}, "measured": {False}}
    assert fills == {f"digits, cnn, {kind}, 8 workers": fill for kind, fill in kinds.items()}


def test_at_most_eight_lines_with_both_baselines_thick(drawn):
    figure = drawn(table_of((2, 8)))["speed_up_over_workers"]
    (axes,) = figure.axes
    # What has no name is the marker of a label.
    lines = {line.get_label(): line for line in axes.get_lines() if line.get_label()[0] != "_"}
    assert list(lines) == ["ideal", *METHODS[:8]]
    assert lines.keys() <= {text.get_text() for text in axes.texts}
    assert {name for name, line in lines.items() if line.get_linewidth() > 2} == set(BASELINES)
    assert "the 3 slowest methods are left out" in texts(figure)


def test_the_speed_up_over_workers_is_in_images_over_those_of_the_fewest_workers(drawn):
    """By hand: 4 times the batch in twice the time is twice as fast."""
    made = [row("ssgd", 10, workers=2, batch_images=64), row("ssgd", 20, workers=8, batch_images=256)]
    figure = drawn(table_of_times(*made))["speed_up_over_workers"]
    ideal, ssgd, *_ = figure.axes[0].get_lines()
    assert list(ssgd.get_ydata()) == [1, 2]
    assert list(ideal.get_ydata()) == [1, 4]


def test_the_table_of_rates_has_speed_ups_and_break_even_rates(drawn):
    made = [
        row(method, ms, rate_gbit_per_second=rate, own_rate=rate == 1)
        for rate, speeds in ((0.01, (10, 5, 40, 5)), (1.0, (10, 20, 40, 20)), (100.0, (10, 20, 40, 5)))
        for method, ms in zip(("ssgd", "thin", "slow", "twice"), speeds)
    ]
    figure = drawn(table_of_times(*made))["bandwidth"]
    shown = [text.get_text() for text in figure.axes[0].texts]
    assert shown[:3] == ["1.00"] * 3
    assert shown[3:7] == ["2.00", "0.50", "0.50", "< 0.1"]
    assert shown[7:11] == ["0.25", "0.25", "0.25", "never"]
    assert shown[11:] == ["2.00", "0.50", "2.00", "< 0.1, > 10"]
    mark, *others = figure.axes[0].get_lines()
    assert mark.get_xydata().tolist() == [[0.5, 0.5], [0.5, 1.5]], "of the second row, between two rates"
    assert len(others) == 2


def test_a_step_is_made_of_its_parts_and_the_legend_has_only_those_that_are_seen(drawn):
    figure = drawn(table_of(methods=["ssgd"]).assign(server_seconds=1e-9))["step_breakdown"]
    (axes,) = figure.axes
    assert [patch.get_width() for patch in axes.patches] == pytest.approx([6, 1, 0, 2], abs=1e-5)
    (legend,) = figure.legends
    shown = ["computing", "waiting for others", "exposed communication"]
    assert [text.get_text() for text in legend.get_texts()] == shown


def test_no_rows_are_figures_that_say_so(drawn):
    empty = table_of()[:0]
    figures = drawn(empty, over_workers=True, over_rates=True)
    assert len(figures) == 4
    for name, figure in figures.items():
        assert texts(figure).startswith("No "), name


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_number_is_no_point_and_no_mark(drawn, value):
    table = table_of(workers=(2, 8), rates=(0.1, 10), methods=["ssgd", "thin"])
    columns = ["step_seconds", "compute_seconds", "others_seconds", "server_seconds", "communication_seconds"]
    table.loc[table.method == "thin", [*columns, "speed_up"]] = value
    figures = drawn(table)
    (axes,) = figures["speed_up_simulated"].axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["ssgd"]
    assert "no simulated time" in " ".join(t.get_text() for t in figures["step_breakdown"].axes[0].texts)
    bandwidth = figures["bandwidth"].axes[0]
    assert not bandwidth.get_lines()
    assert "no simulated time" in [text.get_text() for text in bandwidth.texts]


RUNGS = ["naive", "ring", "levels"]
PLACE = {"dataset": "digits", "model": "cnn", "workers": 8, "nodes": 2, "status": "done", "steps": 10}
RUN = {**PLACE, "cluster": "ethernet_1g", "kind": "emulated"}


def ladder_of(*made, runs=()):
    return times.ladder(table_of_times(*made, runs=[RUN | run for run in runs], baselines=["ring"]), RUNGS)


def test_each_row_is_compared_with_the_first_rung():
    table = ladder_of(row("other", 5), row("levels", 8), row("naive", 40), row("ring", 10))
    assert list(table.method) == ["naive", "ring", "levels", "other"]
    assert list(table.rung)[:3] == [0, 1, 2]
    assert pd.isna(table.rung[3])
    assert list(table.first_over_this) == [1, 4, 5, 8]
    # Rates that are not a cluster's own are left out.
    table = ladder_of(row("naive", 40), row("ring", 5, rate_gbit_per_second=100.0, own_rate=False))
    assert list(table.method) == ["naive"]


def test_kinds_and_clusters_are_never_compared_with_each_other():
    runs = [{"method": "naive", "train_seconds": 2.0}, {"method": "ring", "train_seconds": 0.5}]
    table = ladder_of(row("naive", 40), row("ring", 20), row("ring", 5, cluster="wan_100m"), runs=runs)
    found = table[table.method == "ring"].set_index(["kind", "cluster"]).first_over_this
    assert found["simulated", "ethernet_1g"] == 2
    assert found["emulated", "ethernet_1g"] == pytest.approx(4)
    assert math.isnan(found["simulated", "wan_100m"])


def test_the_table_says_how_its_rows_were_made(tmp_path):
    times.write_ladder(ladder_of(row("naive", 40), row("ring", 10)), "Title", tmp_path)
    text = (tmp_path / "ladder.md").read_text()
    assert "simulated" in text
    assert "4.00" in text
    assert text.startswith("# Ladder. Title")
    assert list(pd.read_csv(tmp_path / "ladder.csv").columns) == times.LADDER_COLUMNS


def test_a_bar_is_labelled_with_its_ratio_and_its_kind_is_stated(draw):
    runs = [{"method": "naive", "train_seconds": 2.0}, {"method": "ring", "train_seconds": 0.5}]
    figure = draw(steps.write_ladder, ladder_of(row("naive", 40), row("ring", 20), runs=runs))
    simulated, emulated = figure.axes
    assert [text.get_text().strip() for text in simulated.texts] == ["1.00", "2.00"]
    assert [text.get_text().strip() for text in emulated.texts] == ["1.00", "4.00"]
    assert simulated.get_title().replace("\n", " ").split().count("simulated") == 1
    assert emulated.get_title().replace("\n", " ").split().count("emulated") == 1
    # A simulated bar has four parts, and a bar of runs is plain.
    assert (len(simulated.patches), len(emulated.patches)) == (8, 2)
    # Without times the figure says so.
    figure = draw(steps.write_ladder, ladder_of())
    assert "No step of a rung has a time" in figure.texts[0].get_text()
