"""The forest plot of paired differences: intervals, the band of equivalence, and the verdicts."""

import math

import pandas as pd
import pytest

from tests.frames import METHODS, comparison, comparisons
from tests.unit.test_line_labels import overlaps
from thinwire.report.figures import comparisons as paired_differences_figure


@pytest.fixture
def drawn(draw):
    return lambda frame: draw(paired_differences_figure.write_paired_differences, frame, ["ssgd"])


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
    assert texts == ["10", "different", "10", "same", "10", "cannot be told", "n", "verdict"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["less", "alike", "unclear"]


def test_the_band_is_the_margin_and_lies_within_the_axes(drawn):
    (axes,) = drawn(comparisons()).axes
    (band,) = axes.patches
    assert (band.get_x(), band.get_width()) == pytest.approx((-0.3, 0.6))
    narrow = drawn(comparisons()[1:2]).axes[0].get_xlim()
    assert narrow[0] < -0.3
    assert narrow[1] > 0.3


def test_one_wide_interval_is_cut_and_the_others_stay_readable(drawn):
    rows = [comparison(m, 0.1, 0.4, "cannot_be_told") for m in METHODS[:4]]
    (axes,) = drawn(pd.DataFrame([*rows, comparison("wide", -55.0, 100.0, "cannot_be_told")])).axes
    low, high = axes.get_xlim()
    assert low < -0.6 < 0.6 < high < 2
    arrows = {line.get_marker() for line in axes.get_lines() if line.get_label() == "_cut"}
    assert arrows == {"<", ">"}
    assert points(axes)[4] == -55
    assert "-55.0" in [text.get_text() for text in axes.texts]


def test_one_pair_has_a_point_and_no_interval(drawn):
    row = comparison("once", 0.5, math.nan, "cannot_be_told", n=1)
    (axes,) = drawn(pd.DataFrame([comparison("first", 0.2, 0.1, "different"), row])).axes
    assert points(axes) == {0: 0.2, 1: 0.5}
    assert intervals(axes) == {}  # that of the first row is at 0


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_no_pair_is_a_row_without_a_point(drawn, value):
    rows = [comparison("none", value, 0, "cannot_be_told", n=0), comparison("some", 0.1, 0.2, "same")]
    (axes,) = drawn(pd.DataFrame(rows)).axes
    assert points(axes) == {1: 0.1}
    assert "cannot be told" in [text.get_text() for text in axes.texts]


def test_cells_and_kinds_have_panels_of_their_own_and_texts_do_not_overlap(drawn):
    rows = [comparison(m, 0.1, 0.2, "cannot_be_told") for m in METHODS]
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
