"""What the figures have in common: their panels and notes."""

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from thinwire.report import style

# Points that no run has measured are hollow.
HOLLOW: dict[str, Any] = {"markerfacecolor": "white", "markeredgewidth": 0.9}
_NOTE_CHARACTERS_AN_INCH = 23
_NOTE_INCHES = 0.1
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


def panel(rows: pd.DataFrame, **wanted: Any) -> pd.DataFrame:
    """The rows with these values."""
    keep = np.ones(len(rows), bool)
    for column, value in wanted.items():
        keep &= (rows[column] == value).to_numpy()
    return rows[keep]


def name_methods(axes: Axes, methods: Sequence[str], baselines: Sequence[str]) -> None:
    """Write the methods along the vertical axis, from the top; baselines are bold."""
    axes.set_yticks(range(len(methods)), methods)
    axes.set_ylim(len(methods) - 0.4, -0.6)
    for label, method in zip(axes.get_yticklabels(), methods):
        label.set_fontweight("bold" if method in baselines else "normal")


def finish(figure: Figure, stem: Path, note: str) -> None:
    """Write the note under the figure, save it, and close it."""
    width, height = figure.get_size_inches()
    text = fill(note, int(width * _NOTE_CHARACTERS_AN_INCH))
    figure.text(1, -_NOTE_INCHES / height, text, ha="right", va="top", fontsize=6, color="0.4")
    style.save(figure, stem)
    plt.close(figure)


def say(sentence: str, stem: Path) -> None:
    """Save a figure that has nothing to show and says why, because the pipeline expects a file."""
    figure = plt.figure(figsize=(style.COLUMN_INCHES, 0.6))
    figure.text(0.5, 0.5, fill(sentence, 60), ha="center", va="center", fontsize=7)
    style.save(figure, stem)
    plt.close(figure)
