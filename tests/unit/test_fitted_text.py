"""Texts of figures: how wide they are, what is shown of long ones, and the sign of numbers."""

import matplotlib.pyplot as plt
import pytest

from thinwire.report.figures import style
from thinwire.report.figures.fitted_text import shortened, text_width, wrapped
from thinwire.report.report_files import with_minus


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


def test_the_width_is_that_of_the_drawn_text():
    style.use()
    figure = plt.figure(dpi=100)
    text = figure.text(0, 0, "multi_step_delay, 16 workers", fontsize=7)
    figure.draw_without_rendering()
    drawn = text.get_window_extent().width / 100
    plt.close(figure)
    assert text_width(text.get_text(), 7) == pytest.approx(drawn, rel=0.05)


def test_numbers_have_a_minus_sign_and_no_hyphen():
    assert [with_minus(value, 1) for value in (-14.61, -0.04, 2)] == ["\N{MINUS SIGN}14.6", "0.0", "2.0"]
