"""The figures of paired differences, of what targets cost, and of traffic."""

import math
from functools import partial

import pandas as pd
import pytest

from tests.frames import METHODS, MISS, comparison, comparisons, to_target, traffic
from tests.unit.test_texts_of_figures import overlaps
from thinwire.base.learning import CLASSIFICATION
from thinwire.report.figures import comparisons as figures
from thinwire.report.figures import traffic as traffic_figure
from thinwire.report.figures.comparisons import profile


@pytest.fixture
def drawn(draw):
    return lambda frame: draw(partial(figures.write_paired_differences, CLASSIFICATION), frame, ["ssgd"])


def points(axes):
    """The mean of each row, by its place."""
    # An arrow where an interval is cut has a label.
    return {
        line.get_ydata()[0]: line.get_xdata()[0]
        for line in axes.get_lines()
        if len(line.get_xdata()) == 1 and line.get_label() != "_cut"
    }


def intervals(axes):
    found = [line for line in axes.get_lines() if len(line.get_xdata()) == 2 and line.get_ydata()[0] != 0]
    return {line.get_ydata()[0]: list(line.get_xdata()) for line in found}


def test_every_row_has_its_mean_its_interval_n_and_verdict(drawn):
    (axes,) = drawn(comparisons()).axes
    assert points(axes) == {0: -1.0, 1: 0.1, 2: 0.4}
    assert intervals(axes) == {1: pytest.approx([-0.05, 0.25]), 2: pytest.approx([-0.5, 1.3])}
    texts = [text.get_text() for text in axes.texts]
    assert texts == ["10", "different", "10", "no effect", "10", "inconclusive", "n", "verdict"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["less", "alike", "unclear"]
    # The band is the margin, and lies within the axes.
    (band,) = axes.patches
    assert (band.get_x(), band.get_width()) == pytest.approx((-0.3, 0.6))
    narrow = drawn(comparisons()[1:2]).axes[0].get_xlim()
    assert narrow[0] < -0.3
    assert narrow[1] > 0.3


def test_one_wide_interval_is_cut_and_the_others_stay_readable(drawn):
    rows = [comparison(m, 0.1, 0.4, "inconclusive") for m in METHODS[:4]]
    (axes,) = drawn(pd.DataFrame([*rows, comparison("wide", -55.0, 100.0, "inconclusive")])).axes
    low, high = axes.get_xlim()
    assert low < -0.6 < 0.6 < high < 2
    arrows = {line.get_marker() for line in axes.get_lines() if line.get_label() == "_cut"}
    assert arrows == {"<", ">"}
    assert 4 not in points(axes)
    assert "\N{MINUS SIGN}55.0" in [text.get_text() for text in axes.texts]


def test_an_interval_outside_of_the_axis_is_one_arrow_with_its_mean(drawn):
    rows = [comparison(m, 0.1, 0.4, "inconclusive") for m in METHODS[:4]]
    (axes,) = drawn(pd.DataFrame([*rows, comparison("far", -55.0, 1.0, "different")])).axes
    assert [line.get_marker() for line in axes.get_lines() if line.get_label() == "_cut"] == ["<"]
    assert "\N{MINUS SIGN}55.0" in [text.get_text() for text in axes.texts]


def test_one_pair_is_a_row_without_a_point(drawn):
    row = comparison("once", 55.0, math.nan, "inconclusive", n=1)
    (axes,) = drawn(pd.DataFrame([comparison("first", 0.2, 0.1, "different"), row])).axes
    assert points(axes) == {0: 0.2}
    assert axes.get_xlim()[1] < 1
    assert [text.get_text() for text in axes.texts][2:4] == ["1", "inconclusive"]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_no_pair_is_a_row_without_a_point(drawn, value):
    rows = [comparison("none", value, 0, "inconclusive", n=0), comparison("some", 0.1, 0.2, "no_effect")]
    (axes,) = drawn(pd.DataFrame(rows)).axes
    assert points(axes) == {1: 0.1}
    assert "inconclusive" in [text.get_text() for text in axes.texts]


def test_cells_and_kinds_have_panels_of_their_own_and_texts_do_not_overlap(drawn):
    rows = [comparison(m, 0.1, 0.2, "inconclusive") for m in METHODS]
    more = [
        pd.DataFrame(rows).assign(**change)
        for change in ({}, {"workers": 16, "nodes": 4}, {"kind": "measured"})
    ]
    figure = drawn(pd.concat(more))
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title().replace("\n", " ").split(", ")[2:] for axes in shown] == [
        ["4 workers", "in process"],
        ["16 workers on 4 nodes", "in process"],
        ["4 workers", "measured"],
    ]
    texts = [t for axes in shown for t in (*axes.texts, axes.title, *axes.get_yticklabels())]
    assert overlaps(texts) == []


def test_no_comparison_is_a_figure_that_says_so(drawn):
    for empty in (comparisons()[:0], pd.DataFrame()):
        assert "No method can be compared" in drawn(empty).texts[0].get_text()


NEEDED = {"ssgd": [40.0, 40.0, 40.0, 40.0], "thin": [10.0, 20.0, MISS, 80.0]}


@pytest.fixture
def profile_drawn(draw):
    return lambda frame: draw(partial(figures.write_performance_profile, CLASSIFICATION), frame, ["ssgd"])


def share(figure, method, ratio):
    """The share of cells in which the method needs at most this multiple of the fewest bytes, in percent."""
    (line,) = [line for line in figure.axes[0].get_lines() if line.get_label() == method]
    x, y = line.get_data()
    return y[x <= ratio][-1]


def test_ratios_are_to_the_fewest_bytes_in_the_same_cell():
    ratios = profile(to_target(NEEDED), CLASSIFICATION)
    assert list(ratios.ssgd) == [4, 2, 1, 1]
    assert list(ratios.thin) == [1, 1, MISS, 2]
    # Cells in which nobody reaches the target are left out.
    assert len(profile(to_target({"ssgd": [40.0, MISS], "thin": [10.0, MISS]}), CLASSIFICATION)) == 1
    # The highest of several targets counts.
    frame = pd.concat([to_target(NEEDED), to_target({"ssgd": [1.0] * 4}).assign(target_score=90.0)])
    assert list(profile(frame, CLASSIFICATION).ssgd) == [4, 2, 1, 1]


def test_a_line_is_the_share_of_cells_within_a_ratio_and_a_miss_is_never_within(profile_drawn):
    figure = profile_drawn(to_target(NEEDED))
    assert [share(figure, "ssgd", ratio) for ratio in (1, 2, 3.9, 4)] == [50, 75, 75, 100]
    assert [share(figure, "thin", ratio) for ratio in (1, 2, 4)] == [50, 75, 75]
    assert figure.axes[0].get_title(loc="left") == "4 cells, in process"
    # Kinds have panels of their own.
    frame = pd.concat([to_target(NEEDED), to_target(NEEDED, kind="emulated")])
    titles = [axes.get_title(loc="left") for axes in profile_drawn(frame).axes]
    assert titles == ["4 cells, in process", "4 cells, emulated"]


def test_a_cell_in_which_a_method_has_no_run_is_not_in_its_line(profile_drawn):
    frame = to_target(NEEDED)
    without = frame[(frame.method != "thin") | (frame.workers > 2)]
    assert list(profile(without, CLASSIFICATION).thin)[1:] == [1, MISS, 2]
    assert share(profile_drawn(without), "thin", 1) == pytest.approx(100 / 3)
    unknown = frame.assign(payload_bytes_median=frame.payload_bytes_median.where(frame.workers > 2, math.nan))
    assert len(profile(unknown, CLASSIFICATION)) == 3


def test_fewer_than_three_cells_have_no_profile(profile_drawn):
    two = {method: needed[:2] for method, needed in NEEDED.items()}
    for frame in (to_target(two), to_target(NEEDED)[:0], pd.DataFrame()):
        assert "A performance profile needs 3 cells" in profile_drawn(frame).texts[0].get_text()


@pytest.fixture
def traffic_drawn(draw):
    return lambda frame: draw(traffic_figure.write, frame, ["ssgd"])


def widths(axes, place):
    """The parts of the bar in this place: where they begin, and how long they are, in MB."""
    parts = [p for p in axes.patches if p.get_y() < place < p.get_y() + p.get_height() and p.get_width()]
    return [(part.get_x(), part.get_width()) for part in parts]


def texts(axes):
    return [text.get_text() for text in axes.texts]


def test_parts_are_stacked_from_the_middle_and_are_means_over_the_runs(traffic_drawn):
    (axes,) = traffic_drawn(traffic()).axes
    assert widths(axes, 0) == [(0, -4), (-4, -2), (0, 6)]
    assert widths(axes, 1) == widths(axes, 0)
    assert texts(axes) == ["12", "12"]
    # Channels and verbs of a kind are one part.
    frame = pd.concat([traffic(["ssgd"]), traffic(["ssgd"], payload_kind="values")])
    assert widths(traffic_drawn(frame).axes[0], 0) == [(0, -10), (-10, -2), (0, 12)]
    # A run that has no part of a kind counts in the mean.
    frame = traffic(["ssgd"])
    frame = frame[(frame.payload_kind == "values") | (frame.repetition == 0)]
    assert widths(traffic_drawn(frame).axes[0], 0) == [(0, -4), (-4, -1), (0, 6)]


def test_a_method_without_a_run_that_is_done_says_so(traffic_drawn):
    frame = pd.concat(
        [traffic(), traffic(["thin"], workers=8), traffic(["ssgd"], workers=8, status="failed")]
    )
    _, second = traffic_drawn(frame).axes
    assert texts(second) == ["no run", "12"]
    assert second.get_title() == "digits, cnn, 8 workers, in process"


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_number_is_not_drawn(traffic_drawn, value):
    frame = traffic()
    frame.loc[frame.method == "thin", "payload_pull_bytes"] = value
    assert texts(traffic_drawn(frame).axes[0]) == ["12"]


def test_no_traffic_at_all_is_a_figure_that_says_so(traffic_drawn):
    assert "No run that is done has sent anything" in traffic_drawn(traffic()[:0]).texts[0].get_text()
    assert (
        "No run that is done has sent anything" in traffic_drawn(traffic(status="failed")).texts[0].get_text()
    )
