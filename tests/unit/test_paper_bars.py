"""A figure of bars in the paper: its bars are as long as the numbers that the paper prints."""

import pytest

from thinwire.errors import UserError
from thinwire.paper import bars
from thinwire.paper.declarations import Bars
from thinwire.paper.values import MINUS, Value
from thinwire.report import style

VALUES = {"saved": Value("88.0", "a"), "with_preparation": Value(f"{MINUS}1,044.9", "b")}
COUNTED = Bars(file="demo", axis="saved, %", bars={"push": "saved", "push, preparation": "with_preparation"})


def test_bars_are_as_long_as_their_numbers_and_negative_ones_go_to_the_left(tmp_path, monkeypatch):
    drawn = []

    def keep(figure, stem):
        (axes,) = figure.axes
        places = [round(bar.get_y(), 2) for bar in axes.patches]
        names = [label.get_text() for label in axes.get_yticklabels()]
        drawn.append((names, places, [bar.get_width() for bar in axes.patches], axes.get_xlim()))

    monkeypatch.setattr(style, "save", keep)
    bars.draw(COUNTED, VALUES, tmp_path / "counted")
    ((names, places, lengths, (left, right)),) = drawn
    assert (names, lengths) == (["push", "push, preparation"], [88.0, -1044.9])
    assert places == sorted(places)  # the axis points downwards, so the first is at the top
    assert left < -1044.9 < 88.0 < right


def test_a_name_without_a_value_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match=r"a bar in paper/values.yaml: there is no value 'saved'; declare it"):
        bars.draw(COUNTED, {}, tmp_path / "counted")


def test_the_figure_has_the_same_bytes_on_a_rerun(tmp_path):
    for name in ("first", "second"):
        bars.draw(COUNTED, VALUES, tmp_path / name)
    for suffix in (".pdf", ".png", ".svg"):
        assert (tmp_path / f"first{suffix}").read_bytes() == (tmp_path / f"second{suffix}").read_bytes()
