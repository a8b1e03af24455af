"""The figures of simulated times: hollow points, thick baselines, and the same bytes every time."""

import math

import pandas as pd
import pytest

from tests.simulated import row, rows
from thinwire.report import report
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
    runs = pd.DataFrame(runs) if runs else pd.DataFrame({"status": []})
    return times.times(rows(*made), runs, BASELINES, lambda place, method: (math.nan, math.nan))


@pytest.fixture
def drawn(draw_all):
    return lambda table, **options: draw_all(report.write_simulated_figures, table, BASELINES, **options)


def texts(figure):
    return " ".join(text.get_text() for text in figure.texts)


@pytest.mark.parametrize(
    ("options", "more"),
    [
        ({}, []),
        ({"workers": (2, 8)}, ["speed_up_over_workers"]),
        ({"rates": (0.1, 10)}, ["bandwidth"]),
    ],
)
def test_the_rows_decide_which_figures_there_are(drawn, options, more):
    assert sorted(drawn(table_of(**options))) == sorted([*ALWAYS, *more])


def test_figures_that_a_suite_asks_for_are_there_in_any_case(drawn):
    asked = {"over_workers": True, "over_rates": True}
    assert len(drawn(table_of(), **asked)) == 4


def test_every_figure_says_simulated(drawn):
    for name, figure in drawn(table_of((2, 8), (0.1, 10))).items():
        assert "simulated" in texts(figure), name


def test_simulated_points_are_hollow_and_measured_ones_are_full_and_apart(drawn):
    run = {"dataset": "digits", "model": "cnn", "workers": 8, "nodes": 2, "cluster": None, "status": "done"}
    runs = [
        {**run, "method": m, "kind": "measured", "steps": 10, "train_seconds": s}
        for m, s in (("ssgd", 4.0), ("m0", 2.0))
    ]
    figure = drawn(table_of(runs=runs))["speed_up_simulated"]
    fills = {}
    for axes in figure.axes:
        for line in axes.get_lines():
            if line.get_marker() != "None" and len(line.get_xdata()):
                fills.setdefault(axes.get_title(), set()).add(line.get_markerfacecolor() == "white")
                assert line.get_linestyle() == "None"
    assert fills == {
        "digits, cnn, computing as here, 8 workers": {True},
        "digits, cnn, measured, 8 workers": {False},
    }


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
    runs = pd.DataFrame({"status": []})
    table = times.times(rows(*made), runs, ["ssgd"], lambda place, method: (math.nan, math.nan))
    figure = drawn(table)["speed_up_over_workers"]
    ideal, ssgd, *_ = figure.axes[0].get_lines()
    assert list(ssgd.get_ydata()) == [1, 2]
    assert list(ideal.get_ydata()) == [1, 4]


def test_the_table_of_rates_has_speed_ups_and_break_even_rates(drawn):
    made = [
        row(method, ms, rate_gbit_per_second=rate, own_rate=rate == 1)
        for rate, speeds in ((1.0, (10, 5, 40)), (100.0, (10, 20, 40)))
        for method, ms in zip(("ssgd", "thin", "slow"), speeds)
    ]
    runs = pd.DataFrame({"status": []})
    table = times.times(rows(*made), runs, ["ssgd"], lambda place, method: (math.nan, math.nan))
    figure = drawn(table)["bandwidth"]
    shown = [text.get_text() for text in figure.axes[0].texts]
    assert shown == ["1.00", "1.00", "2.00", "0.50", "< 10", "0.25", "0.25", "never"]
    (mark,) = figure.axes[0].get_lines()
    assert mark.get_xydata().tolist() == [[0.5, 0.5], [0.5, 1.5]], "of the second row, between both rates"


def test_a_step_is_made_of_its_parts(drawn):
    figure = drawn(table_of(methods=["ssgd"]))["step_breakdown"]
    (axes,) = figure.axes
    assert [patch.get_width() for patch in axes.patches] == pytest.approx([6, 1, 1, 2])


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
    assert not figures["bandwidth"].axes[0].get_lines()
