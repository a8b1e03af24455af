"""The figure of losses against bytes saved, and labels that cover nothing."""

import numpy as np
import pytest

from tests import frames
from tests.unit.test_texts_of_figures import overlaps
from thinwire.base.learning import CLASSIFICATION
from thinwire.report.figures import style, trade_off
from thinwire.report.figures.near_labels import Point, write_near


@pytest.fixture
def drawn(draw):
    return lambda rows: draw(lambda r, f: trade_off.write(CLASSIFICATION, r, f, ["ssgd"]), rows)


def points(axes):
    """Where each method is, by its label."""
    return {
        line.get_label(): tuple(line.get_xydata()[0])
        for line in axes.get_lines()
        if not line.get_label().startswith("_")
    }


def test_a_point_lies_at_its_difference_and_at_what_it_saves_between_nodes(drawn):
    axes = drawn(frames.summary()).axes[0]
    found = points(axes)
    # By hand: the logarithm to base two of the baseline's bytes over the method's.
    assert found["ssgd"] == (0, 0)
    assert found["less"] == pytest.approx((np.log2(10), -1.0))
    assert found["alike"] == pytest.approx((1, 0.1))
    assert found["unclear"] == pytest.approx((-1, 0.4))
    assert "between nodes" in axes.get_xlabel()
    ticks = {text.get_text(): at for at, text in zip(axes.get_xticks(), axes.get_xticklabels())}
    assert ticks["50"] == 1
    assert ticks["\N{MINUS SIGN}100"] == -1


def test_one_node_has_the_bytes_of_the_payload(drawn):
    axes = drawn(frames.summary().assign(nodes=1, between_nodes_reduction_percent=np.nan)).axes[0]
    assert points(axes)["less"][0] == pytest.approx(np.log2(100 / 60))
    assert "payload" in axes.get_xlabel()


def test_a_method_far_below_the_others_stands_at_the_edge_with_its_number(drawn):
    rows = frames.summary()
    rows.loc[rows.method == "alike", "gain_mean"] = -1.0
    rows.loc[rows.method == "unclear", ["gain_mean", "gain_low", "gain_high"]] = -80.0, -81.0, -79.0
    axes = drawn(rows).axes[0]
    assert -5 < points(axes)["unclear"][1] < -1
    assert "unclear (\N{MINUS SIGN}80.0)" in [text.get_text() for text in axes.texts]


def note(figure):
    return figure.texts[-1].get_text().replace("\n", " ")


def test_an_interval_that_is_cut_at_the_frame_has_an_arrow_head_and_the_note_says_so(drawn):
    rows = frames.summary()
    assert "arrow" not in note(drawn(rows))
    rows.loc[rows.method == "unclear", "gain_low"] = -50.0
    figure = drawn(rows)
    axes = figure.axes[0]
    (arrow,) = [line for line in axes.get_lines() if line.get_label() == "_cut"]
    assert arrow.get_xydata().tolist() == [[-1, axes.get_ylim()[0]]]
    assert "arrow heads: the interval goes on below" in note(figure)


def test_one_pair_is_no_comparison_and_has_no_point(drawn):
    rows = frames.summary()
    rows.loc[rows.method == "unclear", ["gain_low", "gain_high"]] = np.nan
    assert set(points(drawn(rows).axes[0])) == {"ssgd", "less", "alike"}
    assert "can be compared" in drawn(rows.assign(gain_low=np.nan)).texts[0].get_text()


def test_only_the_most_workers_are_shown_and_without_a_comparison_a_sentence(drawn):
    rows = frames.summary()
    assert len(trade_off.shown(rows)) == 1
    both = [rows.assign(workers=workers) for workers in (4, 8)]
    (panel,) = trade_off.shown(type(rows)(np.concatenate(both), columns=rows.columns).astype(rows.dtypes))
    assert set(panel.workers) == {8}
    assert "can be compared" in drawn(rows.assign(gain_mean=np.nan)).texts[0].get_text()


@pytest.mark.parametrize("apart", [0.0, 0.02, 0.1])
def test_labels_of_points_that_are_near_each_other_do_not_overlap(draw, apart):
    def write(number, folder):
        figure, (axes,) = style.grid(1, 1, (3.35, 2.5))
        axes.set(xlim=(0, 1), ylim=(0, 1))
        style.fix_layout(figure)
        close = [Point(f"method_number_{i}", 0.5 + apart * (i % 3), 0.5, "black") for i in range(number)]
        write_near(axes, close, [np.array([(0.5, 0.2), (0.5, 0.8)])])
        style.finish(figure, folder / "near", "")

    axes = draw(write, 10).axes[0]
    assert len(axes.texts) == 10
    assert overlaps(axes.texts) == []
    boxes = [text.get_window_extent() for text in axes.texts]
    assert all(axes.bbox.x0 - 2 < box.x0 and box.x1 < axes.bbox.x1 + 2 for box in boxes)
