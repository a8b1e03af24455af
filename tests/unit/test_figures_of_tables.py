"""The figures of paired differences, of losses against bytes saved, of what targets cost, and of traffic."""

import math

import numpy as np
import pandas as pd
import pytest

from tests.frames import METHODS, MISS, comparison, comparisons, summary, to_target, traffic
from tests.unit.test_accuracy_figures import note
from tests.unit.test_labels_of_figures import overlaps
from thinwire.base.learning import CLASSIFICATION
from thinwire.report.figures.comparisons import panels_of_trade_off, write_paired_differences, write_trade_off
from thinwire.report.figures.traffic import profile, write_performance_profile, write_traffic

MINUS = "\N{MINUS SIGN}"


@pytest.fixture
def drawn(draw):
    """A figure of these rows, beside the baseline `ssgd`."""

    def figure(write, rows):
        task = () if write is write_traffic else (CLASSIFICATION,)
        return draw(lambda frame, folder: write(*task, frame, folder, ["ssgd"]), rows)

    return figure


def texts(axes):
    return [text.get_text() for text in axes.texts]


def lines_of(axes, label):
    return [line for line in axes.get_lines() if line.get_label() == label]


def means(axes):
    """The mean of each row, by its place; an arrow where an interval is cut has a label."""
    points = [line for line in axes.get_lines() if len(line.get_xdata()) == 1 and line.get_label() != "_cut"]
    return {line.get_ydata()[0]: line.get_xdata()[0] for line in points}


def test_every_row_has_its_mean_its_interval_n_and_verdict(drawn):
    (axes,) = drawn(write_paired_differences, comparisons()).axes
    assert means(axes) == {0: -1.0, 1: 0.1, 2: 0.4}
    found = [line for line in axes.get_lines() if len(line.get_xdata()) == 2 and line.get_ydata()[0] != 0]
    assert {line.get_ydata()[0]: list(line.get_xdata()) for line in found} == {
        1: pytest.approx([-0.05, 0.25]),
        2: pytest.approx([-0.5, 1.3]),
    }
    assert texts(axes) == ["10", "different", "10", "no effect", "10", "inconclusive", "n", "verdict"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["less", "alike", "unclear"]
    # The band is the margin, and lies within the axes.
    (band,) = axes.patches
    assert (band.get_x(), band.get_width()) == pytest.approx((-0.3, 0.6))
    low, high = drawn(write_paired_differences, comparisons()[1:2]).axes[0].get_xlim()
    assert low < -0.3 < 0.3 < high


@pytest.mark.parametrize(
    ("half", "verdict", "arrows"), [(100.0, "inconclusive", "<>"), (1, "different", "<")]
)
def test_one_wide_or_far_interval_is_cut_and_the_others_stay_readable(drawn, half, verdict, arrows):
    rows = [comparison(m, 0.1, 0.4, "inconclusive") for m in METHODS[:4]]
    rows.append(comparison("wide", -55.0, half, verdict))
    (axes,) = drawn(write_paired_differences, pd.DataFrame(rows)).axes
    low, high = axes.get_xlim()
    assert low < -0.6 < 0.6 < high < 2
    assert "".join(line.get_marker() for line in lines_of(axes, "_cut")) == arrows
    assert 4 not in means(axes)
    assert f"{MINUS}55.0" in texts(axes)


@pytest.mark.parametrize("mean", [math.nan, math.inf, 55.0])
def test_no_pair_or_one_is_a_row_without_a_point(drawn, mean):
    half, n = (math.nan, 1) if mean == 55.0 else (0, 0)
    row = comparison("none", mean, half, "inconclusive", n=n)
    some = comparison("some", 0.1, 0.2, "no_effect")
    (axes,) = drawn(write_paired_differences, pd.DataFrame([row, some])).axes
    assert means(axes) == {1: 0.1}
    assert axes.get_xlim()[1] < 1
    assert texts(axes)[:2] == [str(n), "inconclusive"]


def test_settings_and_kinds_have_panels_of_their_own_and_texts_do_not_overlap(drawn):
    rows = pd.DataFrame([comparison(m, 0.1, 0.2, "inconclusive") for m in METHODS])
    changes = ({}, {"workers": 16, "nodes": 4}, {"kind": "measured"})
    figure = drawn(write_paired_differences, pd.concat([rows.assign(**change) for change in changes]))
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title().replace("\n", " ").split(", ")[2:] for axes in shown] == [
        ["4 workers", "in process"],
        ["16 workers on 4 nodes", "in process"],
        ["4 workers", "measured"],
    ]
    assert overlaps([t for axes in shown for t in (*axes.texts, axes.title, *axes.get_yticklabels())]) == []


NEEDED = {"ssgd": [40.0, 40.0, 40.0, 40.0], "thin": [10.0, 20.0, MISS, 80.0]}
TWO = {method: needed[:2] for method, needed in NEEDED.items()}


NOTHING = {
    "can be compared": [
        *((write_paired_differences, rows) for rows in (comparisons()[:0], pd.DataFrame())),
        *((write_trade_off, summary().assign(**{column: math.nan})) for column in ("gain_mean", "gain_low")),
    ],
    "A performance profile needs 3 settings": [
        (write_performance_profile, rows) for rows in (to_target(TWO), to_target(NEEDED)[:0], pd.DataFrame())
    ],
    "No run that is done has sent anything": [
        (write_traffic, rows) for rows in (traffic()[:0], traffic(status="failed"))
    ],
}


@pytest.mark.parametrize("words", NOTHING)
def test_without_rows_a_figure_says_that_there_is_nothing_to_show(drawn, words):
    for write, rows in NOTHING[words]:
        assert words in drawn(write, rows).texts[0].get_text()


def points(axes):
    """Where each method is, by its label."""
    lines = [line for line in axes.get_lines() if not line.get_label().startswith("_")]
    return {line.get_label(): tuple(line.get_xydata()[0]) for line in lines}


def test_a_point_lies_at_its_difference_and_at_what_it_saves_between_nodes(drawn):
    axes = drawn(write_trade_off, summary()).axes[0]
    found = points(axes)
    # By hand: the logarithm to base two of the baseline's bytes over the method's.
    assert found["ssgd"] == (0, 0)
    assert found["less"] == pytest.approx((np.log2(10), -1.0))
    assert found["alike"] == pytest.approx((1, 0.1))
    assert found["unclear"] == pytest.approx((-1, 0.4))
    assert "between nodes" in axes.get_xlabel()
    ticks = {text.get_text(): at for at, text in zip(axes.get_xticks(), axes.get_xticklabels())}
    assert (ticks["50"], ticks[f"{MINUS}100"]) == (1, -1)
    # One node has the bytes of the payload.
    axes = drawn(write_trade_off, summary().assign(nodes=1, between_nodes_reduction_percent=np.nan)).axes[0]
    assert points(axes)["less"][0] == pytest.approx(np.log2(100 / 60))
    assert "payload" in axes.get_xlabel()


def test_a_method_far_below_the_others_stands_at_the_edge_with_its_number(drawn):
    rows = summary()
    rows.loc[rows.method == "alike", "gain_mean"] = -1.0
    rows.loc[rows.method == "unclear", ["gain_mean", "gain_low", "gain_high"]] = -80.0, -81.0, -79.0
    axes = drawn(write_trade_off, rows).axes[0]
    assert -5 < points(axes)["unclear"][1] < -1
    assert f"unclear ({MINUS}80.0)" in texts(axes)


def test_an_interval_that_is_cut_at_the_frame_has_an_arrow_head_and_the_note_says_so(drawn):
    rows = summary()
    assert "arrow" not in note(drawn(write_trade_off, rows))
    rows.loc[rows.method == "unclear", "gain_low"] = -50.0
    figure = drawn(write_trade_off, rows)
    (arrow,) = lines_of(figure.axes[0], "_cut")
    assert arrow.get_xydata().tolist() == [[-1, figure.axes[0].get_ylim()[0]]]
    assert "arrow heads: the interval goes on below" in note(figure)


def test_only_comparisons_of_several_pairs_and_the_most_workers_have_points(drawn):
    rows = summary()
    (panel,) = panels_of_trade_off(pd.concat([rows, rows.assign(workers=8)], ignore_index=True))
    assert set(panel.workers) == {8}
    rows.loc[rows.method == "unclear", ["gain_low", "gain_high"]] = np.nan
    assert set(points(drawn(write_trade_off, rows).axes[0])) == {"ssgd", "less", "alike"}


def share(figure, method, ratio):
    """The percentage of settings in which the method needs at most this multiple of the fewest bytes."""
    (line,) = lines_of(figure.axes[0], method)
    x, y = line.get_data()
    return y[x <= ratio][-1]


def test_ratios_are_to_the_fewest_bytes_in_the_same_cell():
    # Cells in which nobody reaches the target are left out.
    assert len(profile(to_target({"ssgd": [40.0, MISS], "thin": [10.0, MISS]}), CLASSIFICATION)) == 1
    # The highest of several targets counts.
    frame = pd.concat([to_target(NEEDED), to_target({"ssgd": [1.0] * 4}).assign(target_score=90.0)])
    assert list(profile(frame, CLASSIFICATION).ssgd) == [4, 2, 1, 1]


def test_a_line_is_the_share_of_settings_within_a_ratio_and_a_miss_is_never_within(drawn):
    # Kinds have panels of their own.
    frame = pd.concat([to_target(NEEDED), to_target(NEEDED, kind="emulated")])
    figure = drawn(write_performance_profile, frame)
    assert [share(figure, "ssgd", ratio) for ratio in (1, 2, 3.9, 4)] == [50, 75, 75, 100]
    assert [share(figure, "thin", ratio) for ratio in (1, 2, 4)] == [50, 75, 75]
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["4 settings, in process", "4 settings, emulated"]


def test_a_cell_in_which_a_method_has_no_run_is_not_in_its_line(drawn):
    frame = to_target(NEEDED)
    without = frame[(frame.method != "thin") | (frame.workers > 2)]
    assert list(profile(without, CLASSIFICATION).thin)[1:] == [1, MISS, 2]
    assert share(drawn(write_performance_profile, without), "thin", 1) == pytest.approx(100 / 3)
    unknown = frame.assign(payload_bytes_median=frame.payload_bytes_median.where(frame.workers > 2, math.nan))
    assert len(profile(unknown, CLASSIFICATION)) == 3


def widths(axes, place):
    """The parts of the bar in this place: where they begin, and how long they are, in MB."""
    parts = [p for p in axes.patches if p.get_y() < place < p.get_y() + p.get_height() and p.get_width()]
    return [(part.get_x(), part.get_width()) for part in parts]


def test_parts_are_stacked_from_the_middle_and_are_means_over_the_runs(drawn):
    (axes,) = drawn(write_traffic, traffic()).axes
    assert widths(axes, 0) == widths(axes, 1) == [(0, -4), (-4, -2), (0, 6)]
    assert texts(axes) == ["12", "12"]
    # Channels and verbs of a kind are one part, and a run that has no part of a kind counts in the mean.
    frame = traffic(["ssgd"])
    frame = frame[(frame.payload_kind == "values") | (frame.repetition == 0)]
    frame = pd.concat([frame, frame[frame.payload_kind == "values"]])
    assert widths(drawn(write_traffic, frame).axes[0], 0) == [(0, -8), (-8, -1), (0, 12)]


@pytest.mark.parametrize(("times", "text"), [(0.1, "1.2"), (83, "996"), (83.32, "1,000"), (1000, "12,000")])
def test_bytes_have_three_digits_and_no_exponent(drawn, times, text):
    frame = traffic(["ssgd"])
    frame[["payload_push_bytes", "payload_pull_bytes"]] *= times
    assert texts(drawn(write_traffic, frame).axes[0]) == [text]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_method_without_a_run_that_is_done_says_so_and_no_bytes_are_not_drawn(drawn, value):
    failed = pd.concat([traffic(["thin"], workers=8), traffic(["ssgd"], workers=8, status="failed")])
    without = traffic()
    without.loc[without.method == "thin", "payload_pull_bytes"] = value
    first, second = drawn(write_traffic, pd.concat([without, failed])).axes
    assert second.get_title() == "digits, cnn, 8 workers, in process"
    assert (texts(first), texts(second)) == (["12", "no run"], ["no run", "12"])
