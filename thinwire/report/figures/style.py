"""How figures look: sizes, panels, legends, notes and files."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from textwrap import fill
from typing import TypedDict

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter
from matplotlib.typing import ColorType, LineStyleType
from PIL import Image

from thinwire.base.files import writing
from thinwire.report.figures.labels import shortened, text_width, wrapped
from thinwire.report.tables import numbers

THICK, THIN = 2.4, 1.0  # points
COLUMN_INCHES = 3.35  # width of a column in a two-column paper
_PDF = {"CreationDate": None, "Creator": None, "Producer": None}  # no metadata
_PNG_DPI, _PNG_COLOURS = 180, 256  # a palette makes files a fourth as large
_LEAST_TICKS = 3
_TICKS_OF_A_DECADE = (
    (1.0,),
    (1.0, 3.0),
    (1.0, 1.5, 2.0, 3.0, 5.0, 7.0),
    (1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0),
)


class LineLook(TypedDict, total=False):
    """Arguments of Matplotlib for a line or points."""

    label: str
    color: ColorType
    linestyle: LineStyleType
    linewidth: float
    dashes: tuple[float | None, ...]
    marker: str
    markersize: float
    markerfacecolor: ColorType
    markeredgewidth: float
    alpha: float
    zorder: float


class PatchLook(TypedDict, total=False):
    """Arguments of Matplotlib for a bar or a cell."""

    facecolor: ColorType
    edgecolor: ColorType
    hatch: str
    linewidth: float
    zorder: float


def use() -> None:
    """Set the style for all figures of this process."""
    mpl.use("Agg")
    sns.set_theme(
        context="paper",
        style="whitegrid",
        palette="colorblind",
        font="DejaVu Sans",
        rc={
            "font.size": 8,
            "axes.titlesize": 8,
            "axes.labelsize": 8,
            "xtick.labelsize": 7,
            "ytick.labelsize": 7,
            "legend.fontsize": 7,
            "legend.title_fontsize": 7,
            "lines.linewidth": 1.2,
            "lines.markersize": 4,
            "grid.linewidth": 0.4,
            "axes.linewidth": 0.6,
            "pdf.fonttype": 42,
        },
    )


def ticks(axes: Axes, log: bool) -> None:
    """Put ticks at whole epochs; on a logarithmic axis, at as many plain numbers as have room."""
    if not log:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        return
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(_log_locator(*axes.get_xlim()))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())


def _log_locator(low: float, high: float) -> LogLocator:
    """The locator with the fewest ticks between two numbers, but at least three."""
    locators = [LogLocator(subs=subs) for subs in _TICKS_OF_A_DECADE]
    for locator in locators:
        if sum(low <= tick <= high for tick in locator.tick_values(low, high)) >= _LEAST_TICKS:
            return locator
    return locators[-1]


def save(figure: Figure, stem: Path) -> None:
    """Write the figure as PDF and PNG, without date and version, so the bytes are the same every time."""
    with writing(stem):
        stem.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(stem.with_suffix(".pdf"), bbox_inches="tight", metadata=_PDF)
        drawn = BytesIO()
        figure.savefig(drawn, format="png", bbox_inches="tight", dpi=_PNG_DPI)
        picture = Image.open(drawn).convert("RGB").quantize(_PNG_COLOURS, dither=Image.Dither.NONE)
        picture.save(stem.with_suffix(".png"))


HOLLOW: LineLook = {"markerfacecolor": "white", "markeredgewidth": 0.9}
_NOTE_INCHES, _NOTE_POINTS = 0.1, 6.5  # the paper makes figures a little smaller
_LABEL_INCHES, _LABEL_POINTS = 1.6, 7.0  # at most, of the name of a method
_HANDLE_INCHES = 0.55  # of an entry of a legend, beside its label
_LINE = 1.25  # from one line of a text to the next, in sizes of the font
_LEAST_INCHES = 1.2  # of the height of a panel, of which its titles take the most


def grid(
    number: int, columns: int, inches: tuple[float, float], sharex: bool = False, sharey: bool = False
) -> tuple[Figure, list[Axes]]:
    """A figure with so many panels of this size, and so many columns of them."""
    rows = -(-number // columns)
    figure, axes = plt.subplots(
        rows,
        columns,
        figsize=(columns * inches[0], rows * max(inches[1], _LEAST_INCHES)),
        squeeze=False,
        layout="constrained",
        sharex=sharex,
        sharey=sharey,
    )
    for unused in axes.flat[number:]:
        unused.set_visible(False)
    return figure, list(axes.flat[:number])


KINDS = {"inprocess": "in process"}


def heading(panel: pd.DataFrame) -> str:
    """What the runs of a panel have in common."""
    row = panel.iloc[0]
    return f"{numbers.place(row)}, {KINDS.get(row.kind, row.kind)}"


def task_of(rows: pd.DataFrame) -> pd.Series:
    """Data set, model and kind of each row, as the heading of a panel."""
    return rows.dataset + ", " + rows.model + ", " + rows.kind


def name_methods(axes: Axes, methods: Sequence[str], baselines: Sequence[str]) -> None:
    """Write the methods along the vertical axis, from the top; baselines are bold."""
    shown = shortened(methods, _LABEL_INCHES, _LABEL_POINTS)
    axes.set_yticks(range(len(methods)), list(shown.values()), fontsize=_LABEL_POINTS)
    axes.set_ylim(len(methods) - 0.4, -0.6)
    for label, method in zip(axes.get_yticklabels(), methods):
        label.set_fontweight("bold" if method in baselines else "normal")


def filled(colour: str, hatch: str) -> PatchLook:
    """How a part of a bar is drawn."""
    return {"facecolor": colour, "hatch": hatch, "edgecolor": "0.2", "linewidth": 0.3}


def write_beside_row(axes: Axes, x: float, row: int, text: str) -> None:
    """Write what belongs to a row of a panel beside it, so many widths of the axes from their left."""
    axes.text(x, row, text, transform=axes.get_yaxis_transform(), va="center", fontsize=6, color="0.25")


def legend(figure: Figure, handles: Sequence[Artist], labels: Sequence[str]) -> None:
    """Write a legend above the panels, in as few lines as its labels fit into."""
    inches = figure.get_figwidth()
    shown = list(shortened(labels, inches - _HANDLE_INCHES, _LABEL_POINTS).values())
    widths = [_HANDLE_INCHES + text_width(label, _LABEL_POINTS) for label in shown]
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
    text = wrapped(note, width, _NOTE_POINTS)
    figure.text(1, -_NOTE_INCHES / height, text, ha="right", va="top", fontsize=_NOTE_POINTS, color="0.4")
    save(figure, stem)
    plt.close(figure)


def fix_layout(figure: Figure) -> None:
    """Break titles that are wider than their panels, and keep the panels where they are from now on."""
    _fit_titles(figure)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def _fit_titles(figure: Figure) -> None:
    """Break the titles of panels and of their horizontal axes, and make room for the lines."""
    figure.draw_without_rendering()  # this decides how wide the panels are
    more = 0.0
    for axes in figure.axes:
        inches = axes.get_window_extent().width / figure.dpi
        added = 0.0
        for text in (axes.title, axes.xaxis.label):
            before, points = text.get_text(), float(text.get_fontsize())
            text.set_text(wrapped(before, inches, points))
            added += (text.get_text().count("\n") - before.count("\n")) * points * _LINE / 72
        more = max(more, added)
    width, height = figure.get_size_inches()
    place = figure.axes[0].get_subplotspec()
    rows = place.get_gridspec().nrows if place is not None else 1
    figure.set_size_inches(width, height + rows * more)


def say(sentence: str, stem: Path) -> None:
    """Save a figure that has nothing to show and says why, because the pipeline expects a file."""
    figure = plt.figure(figsize=(COLUMN_INCHES, 0.6))
    figure.text(0.5, 0.5, fill(sentence, 60), ha="center", va="center", fontsize=7)
    save(figure, stem)
    plt.close(figure)
