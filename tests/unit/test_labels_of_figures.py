"""Labels of figures: long ones are shortened, and none covers another beside lines and points."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.path import Path
from matplotlib.transforms import Affine2D

from thinwire.report.figures import style
from thinwire.report.figures.labels import (
    Label,
    apart,
    shortened,
    text_width,
    wrapped,
    write_beside,
    write_near,
)


def box(text):
    anchor = text.get_transform().transform(text.get_position())
    turned = text.get_rotation()
    text.set_rotation(0)
    extent = text.get_window_extent()
    text.set_rotation(turned)
    rectangle = Path.unit_rectangle().transformed(Affine2D().scale(extent.width, extent.height))
    moved = rectangle.transformed(Affine2D().translate(extent.x0, extent.y0))
    return moved.transformed(Affine2D().rotate_deg_around(*anchor, turned))


def overlaps(found, pixels=0):
    """The texts that cover each other by more than these pixels."""
    made = [(text.get_text(), box(text)) for text in found]
    extents = [shape.get_extents().padded(-pixels) for _, shape in made]
    close = [
        (one, other)
        for one, other in itertools.combinations(range(len(made)), 2)
        if extents[one].overlaps(extents[other])
    ]
    return [(made[a][0], made[b][0]) for a, b in close if made[a][1].intersects_path(made[b][1])]


def test_short_labels_stay_and_long_ones_lose_their_middle_but_not_what_makes_them_different():
    labels = ["ssgd", "W" * 99 + "1", "W" * 99 + "2", "a" + "W" * 98 + "1", "W" * 50 + "x" + "W" * 48 + "1"]
    shown = shortened(labels, 1.0, 7)
    assert list(shown) == labels
    assert shown["ssgd"] == "ssgd"
    assert len(set(shown.values())) == len(labels)
    assert all(text_width(text, 7, bold=True) <= 1.0 for text in shown.values())


def test_lines_break_at_spaces_and_words_that_are_too_long_are_cut():
    lines = wrapped(f"one two, three\nfour {'W' * 40}", 0.8, 7).split("\n")
    assert lines[:3] == ["one two, three", "four", lines[2]]
    assert "\N{HORIZONTAL ELLIPSIS}" in lines[2]
    assert all(text_width(line, 7) <= 0.8 for line in lines)


@pytest.fixture
def axes():
    style.use()
    figure = plt.figure(figsize=(3.35, 3))
    yield figure.add_axes((0.1, 0.1, 0.6, 0.6))
    plt.close(figure)


def test_the_width_is_that_of_the_drawn_text(axes):
    text = axes.text(0, 0, "multi_step_delay, 16 workers", fontsize=7)
    axes.figure.draw_without_rendering()
    drawn = text.get_window_extent().width / axes.figure.dpi
    assert text_width(text.get_text(), 7) == pytest.approx(drawn, rel=0.05)


def test_the_test_for_overlaps_finds_one(axes):
    texts = [axes.text(0.5, 0.5, "one", rotation=45), axes.text(0.52, 0.5, "another", rotation=45)]
    axes.figure.draw_without_rendering()
    assert overlaps(texts) == [("one", "another")]


def test_labels_do_not_overlap_and_if_they_do_not_fit_only_lines_with_markers_have_one(axes):
    weak = [Label(f"weak_{i}", 0.5, 0.5, "black") for i in range(40)]
    texts = write_beside(axes, weak[:12])
    axes.figure.draw_without_rendering()
    assert len(texts) == 12
    assert overlaps(texts) == []
    strong = [Label(f"strong_{i}", 0.5, 0.5, "black", marker="o") for i in range(8)]
    texts = write_beside(axes, weak + strong)
    axes.figure.draw_without_rendering()
    assert [text.get_text() for text in texts] == [end.text for end in strong]
    assert overlaps(texts) == []


@pytest.mark.parametrize(
    ("places", "moved"),
    [
        ([0.0, 2.0, 5.0], [0, 2, 5]),
        ([5.0, 5.0, 5.0], [4, 5, 6]),  # by as little as possible: the middle one stays
        ([9.0, 10.0, 10.0], [8, 9, 10]),
        ([0.0, 0.0], [0, 1]),
        ([], []),
    ],
)
def test_places_that_are_too_near_move_apart_between_their_ends(places, moved):
    assert apart(places, 1, 10) == pytest.approx(moved)


@pytest.mark.parametrize("apart", [0.0, 0.02, 0.1])
def test_labels_of_points_that_are_near_each_other_do_not_overlap(axes, apart):
    close = [Label(f"method_number_{i}", 0.5 + apart * (i % 3), 0.5, "black") for i in range(10)]
    write_near(axes, close, [np.array([(0.5, 0.2), (0.5, 0.8)])])
    axes.figure.draw_without_rendering()
    assert len(axes.texts) == 10
    assert overlaps(axes.texts) == []
    boxes = [text.get_window_extent() for text in axes.texts]
    assert all(axes.bbox.x0 - 2 < box.x0 and box.x1 < axes.bbox.x1 + 2 for box in boxes)
