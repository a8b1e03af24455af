"""Labels at the ends of lines do not cover each other, and stay near their lines."""

import itertools

import matplotlib.pyplot as plt
import pytest
from matplotlib.path import Path
from matplotlib.transforms import Affine2D

from thinwire.report.figures import lines, style
from thinwire.report.figures.lines import End, apart


def boxes(texts):
    """The rectangles around the letters of texts, turned as they are, in pixels."""
    return [box(text) for text in texts]


def box(text):
    anchor = text.get_transform().transform(text.get_position())
    turned = text.get_rotation()
    text.set_rotation(0)
    extent = text.get_window_extent()
    text.set_rotation(turned)
    rectangle = Path.unit_rectangle().transformed(Affine2D().scale(extent.width, extent.height))
    moved = rectangle.transformed(Affine2D().translate(extent.x0, extent.y0))
    return moved.transformed(Affine2D().rotate_deg_around(*anchor, turned))


def overlaps(texts):
    pairs = itertools.combinations(zip(texts, boxes(texts)), 2)
    return [(a.get_text(), b.get_text()) for (a, one), (b, other) in pairs if one.intersects_path(other)]


@pytest.fixture
def axes():
    style.use()
    figure = plt.figure(figsize=(3.35, 3))
    yield figure.add_axes((0.1, 0.1, 0.6, 0.6))
    plt.close(figure)


def ends(number, place=(0.5, 0.5)):
    return [End(f"method_number_{i}", *place, "black") for i in range(number)]


@pytest.mark.parametrize("write", [lines.above, lines.beside])
@pytest.mark.parametrize("place", [(0, 0), (0.5, 0.5), (1, 1)])
def test_labels_of_lines_that_end_together_do_not_overlap(axes, write, place):
    texts = write(axes, ends(12, place))
    axes.figure.draw_without_rendering()
    assert len(texts) == 12
    assert overlaps(texts) == []


def test_the_test_for_overlaps_finds_one(axes):
    texts = [axes.text(0.5, 0.5, "one", rotation=45), axes.text(0.52, 0.5, "another", rotation=45)]
    axes.figure.draw_without_rendering()
    assert overlaps(texts) == [("one", "another")]


@pytest.mark.parametrize("write", [lines.above, lines.beside])
def test_if_labels_do_not_fit_only_lines_with_markers_have_one(axes, write):
    strong = [End(f"strong_{i}", 0.5, 0.5, "black", marker="o") for i in range(8)]
    texts = write(axes, [*ends(40), *strong])
    axes.figure.draw_without_rendering()
    assert [text.get_text() for text in texts] == [end.label for end in strong]
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
