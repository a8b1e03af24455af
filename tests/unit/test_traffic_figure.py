"""The figure of traffic: the parts of each bar, to the left and to the right."""

import math

import pandas as pd
import pytest

from tests.frames import traffic
from thinwire.report.figures import traffic as traffic_figure


@pytest.fixture
def drawn(draw):
    return lambda frame: draw(traffic_figure.write, frame, ["ssgd"])


def widths(axes, place):
    """The parts of the bar in this place: where they begin, and how long they are, in MB."""
    parts = [p for p in axes.patches if p.get_y() < place < p.get_y() + p.get_height() and p.get_width()]
    return [(part.get_x(), part.get_width()) for part in parts]


def texts(axes):
    return [text.get_text() for text in axes.texts]


def test_parts_are_stacked_from_the_middle_and_are_means_over_the_runs(drawn):
    (axes,) = drawn(traffic()).axes
    assert widths(axes, 0) == [(0, -4), (-4, -2), (0, 6)]
    assert widths(axes, 1) == widths(axes, 0)
    assert texts(axes) == ["12", "12"]


def test_channels_and_verbs_of_a_kind_are_one_part(drawn):
    frame = pd.concat([traffic(["ssgd"]), traffic(["ssgd"], payload_kind="values")])
    assert widths(drawn(frame).axes[0], 0) == [(0, -10), (-10, -2), (0, 12)]


def test_a_run_that_has_no_part_of_a_kind_counts_in_the_mean(drawn):
    frame = traffic(["ssgd"])
    frame = frame[(frame.payload_kind == "values") | (frame.repetition == 0)]
    assert widths(drawn(frame).axes[0], 0) == [(0, -4), (-4, -1), (0, 6)]


def test_a_method_without_a_run_that_is_done_says_so(drawn):
    frame = pd.concat(
        [traffic(), traffic(["thin"], workers=8), traffic(["ssgd"], workers=8, status="failed")]
    )
    _, second = drawn(frame).axes
    assert texts(second) == ["no run", "12"]
    assert second.get_title() == "digits, cnn, 8 workers, in process"


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_number_is_not_drawn(drawn, value):
    frame = traffic()
    frame.loc[frame.method == "thin", "payload_pull_bytes"] = value
    assert texts(drawn(frame).axes[0]) == ["12"]


def test_no_traffic_at_all_is_a_figure_that_says_so(drawn):
    assert "No run that is done has sent anything" in drawn(traffic()[:0]).texts[0].get_text()
    assert "No run that is done has sent anything" in drawn(traffic(status="failed")).texts[0].get_text()
