"""What the figures have in common: their panels and notes."""

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from thinwire.report import fitted_text, style

# Points that no run has measured are hollow.
HOLLOW: dict[str, Any] = {"markerfacecolor": "white", "markeredgewidth": 0.9}
_NOTE_INCHES, _NOTE_POINTS = 0.1, 6.0
_LABEL_INCHES, _LABEL_POINTS = 1.6, 7.0  # at most, of the name of a method
_HANDLE_INCHES = 0.55  # of an entry of a legend, beside its label
_LINE = 1.25  # from one line of a text to the next, in sizes of the font
_LEAST_INCHES = 1.2  # of the height of a panel, of which its titles take the most


def grid(rows: int, columns: int, inches: tuple[float, float], **options: Any) -> tuple[Figure, Any]:
    """A figure with panels of this size, as an array of [rows, columns]."""
    width, height = columns * inches[0], rows * max(inches[1], _LEAST_INCHES)
    return plt.subplots(
        rows, columns, figsize=(width, height), squeeze=False, layout="constrained", **options
    )


def unique(values: pd.Series | pd.DataFrame) -> list[Any]:
    """Each value once, or each row as a tuple, in the order of their first."""
    if isinstance(values, pd.DataFrame):
        return list(dict.fromkeys(values.itertuples(index=False, name=None)))
    return list(dict.fromkeys(values))


def task_of(rows: pd.DataFrame) -> pd.Series:
    """Data set, model and compute profile of each row, as the heading of a panel."""
    profiles = ("computing as " + rows.profile).where(rows.profile != "", rows.kind)
    return rows.dataset + ", " + rows.model + ", " + profiles


def panel(rows: pd.DataFrame, **wanted: object) -> pd.DataFrame:
    """The rows with these values."""
    keep = np.ones(len(rows), bool)
    for column, value in wanted.items():
        keep &= (rows[column] == value).to_numpy()
    return rows[keep]


def name_methods(axes: Axes, methods: Sequence[str], baselines: Sequence[str]) -> None:
    """Write the methods along the vertical axis, from the top; baselines are bold."""
    shown = fitted_text.shortened(methods, _LABEL_INCHES, _LABEL_POINTS)
    axes.set_yticks(range(len(methods)), list(shown.values()), fontsize=_LABEL_POINTS)
    axes.set_ylim(len(methods) - 0.4, -0.6)
    for label, method in zip(axes.get_yticklabels(), methods):
        label.set_fontweight("bold" if method in baselines else "normal")


def legend(figure: Figure, handles: Sequence[Artist], labels: Sequence[str]) -> None:
    """Write a legend above the panels, in as few lines as its labels fit into."""
    inches = figure.get_figwidth()
    shown = list(fitted_text.shortened(labels, inches - _HANDLE_INCHES, _LABEL_POINTS).values())
    widths = [_HANDLE_INCHES + fitted_text.width(label, _LABEL_POINTS) for label in shown]
    lines = next(
        n for n in range(1, len(shown) + 1) if sum(_widest_of_each(widths, n)) <= inches or n == len(shown)
    )
    columns = len(_widest_of_each(widths, lines))
    figure.legend(handles, shown, loc="outside upper center", ncols=columns, frameon=False)


def _widest_of_each(widths: Sequence[float], lines: int) -> list[float]:
    """The widths of the columns of a legend, which are filled from the top."""
    return [max(widths[i : i + lines]) for i in range(0, len(widths), lines)]


def finish(figure: Figure, stem: Path, note: str) -> None:
    """Break titles that are wider than their panels, write the note under the figure, save and close it."""
    if figure.get_layout_engine() is not None:
        _fit_titles(figure)
    width, height = figure.get_size_inches()
    text = fitted_text.wrapped(note, width, _NOTE_POINTS)
    figure.text(1, -_NOTE_INCHES / height, text, ha="right", va="top", fontsize=_NOTE_POINTS, color="0.4")
    style.save(figure, stem)
    plt.close(figure)


def _fit_titles(figure: Figure) -> None:
    """Break the titles of panels and of their horizontal axes, and make room for the lines."""
    figure.draw_without_rendering()  # this decides how wide the panels are
    more = 0.0
    for axes in figure.axes:
        inches = axes.get_window_extent().width / figure.dpi
        added = 0.0
        for text in (axes.title, axes.xaxis.label):
            before, points = text.get_text(), float(text.get_fontsize())
            text.set_text(fitted_text.wrapped(before, inches, points))
            added += (text.get_text().count("\n") - before.count("\n")) * points * _LINE / 72
        more = max(more, added)
    width, height = figure.get_size_inches()
    place = figure.axes[0].get_subplotspec()
    rows = place.get_gridspec().nrows if place is not None else 1
    figure.set_size_inches(width, height + rows * more)


def say(sentence: str, stem: Path) -> None:
    """Save a figure that has nothing to show and says why, because the pipeline expects a file."""
    figure = plt.figure(figsize=(style.COLUMN_INCHES, 0.6))
    figure.text(0.5, 0.5, fill(sentence, 60), ha="center", va="center", fontsize=7)
    style.save(figure, stem)
    plt.close(figure)
