"""A figure of bars in the paper: its bars are as long as the numbers that the paper prints."""

import pytest

from thinwire.errors import UserError
from thinwire.paper import bars
from thinwire.paper.declarations import Bars
from thinwire.paper.values import MINUS, Value
from thinwire.report import style

VALUES = {"saved": Value("88.0", "a"), "with_preparation": Value(f"{MINUS}1,044.9", "b")}
COUNTED = Bars(file="demo", axis="saved, %", bars={"push": "saved", "push, preparation": "with_preparation"})


@pytest.fixture
def axes(tmp_path, monkeypatch):
    """Draw the bars of these values, and return the axes."""

    def draw(values):
        kept = []
        monkeypatch.setattr(style, "save", lambda figure, stem: kept.extend(figure.axes))
        bars.draw(COUNTED, values, tmp_path / "counted")
        return kept[0]

    return draw


def test_bars_are_as_long_as_their_numbers_and_negative_ones_go_to_the_left(axes):
    drawn = axes(VALUES)
    assert [label.get_text() for label in drawn.get_yticklabels()] == list(COUNTED.bars)
    assert [bar.get_width() for bar in drawn.patches] == [88.0, -1044.9]
    first, second = (bar.get_y() for bar in drawn.patches)
    assert first < second  # the axis points downwards, so the first is at the top
    assert drawn.yaxis_inverted()
    left, right = drawn.get_xlim()
    assert left < -1044.9 < 88.0 < right


def test_a_value_that_is_no_number_has_no_bar(axes):
    drawn = axes(VALUES | {"saved": Value("n/a", "a")})
    assert [bar.get_width() for bar in drawn.patches] == [0, -1044.9]
    assert "n/a" in [text.get_text() for text in drawn.texts]


def test_a_name_without_a_value_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match=r"a bar in paper/values.yaml: there is no value 'saved'; declare it"):
        bars.draw(COUNTED, {}, tmp_path / "counted")


def test_the_figure_has_the_same_bytes_on_a_rerun(tmp_path):
    for name in ("first", "second"):
        bars.draw(COUNTED, VALUES, tmp_path / name)
    for suffix in (".pdf", ".png", ".svg"):
        assert (tmp_path / f"first{suffix}").read_bytes() == (tmp_path / f"second{suffix}").read_bytes()
