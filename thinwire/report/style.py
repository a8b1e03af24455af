"""The style of the figures, readable in print, and how they are written: with the same bytes every time."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from thinwire.files import writing

COLUMN_INCHES = 3.35  # width of a column in a two-column paper
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "p", "h")
_BASELINE_COLOUR = (0.1, 0.1, 0.1)
# Colours that differ for the colour-blind, each dark enough for a label on white.
_COLOURS = tuple(
    to_rgb(f"#{colour}")
    for colour in (
        "0173b2",
        "c46a00",
        "00805c",
        "a3479b",
        "c03a2b",
        "7a5a2f",
        "4b5bb5",
        "6f7400",
        "c2558c",
        "2b8a9a",
    )
)
_THICK, _THIN = 2.4, 1.0  # points
_WRITTEN: dict[str, dict[str, Any]] = {
    "pdf": {"metadata": {"CreationDate": None, "Creator": None, "Producer": None}},
    "svg": {"metadata": {"Date": None, "Creator": None}},
    "png": {"metadata": {"Software": None}, "dpi": 200},
}
_LEAST_TICKS = 3
_TICKS_OF_A_DECADE = (
    (1.0,),
    (1.0, 3.0),
    (1.0, 1.5, 2.0, 3.0, 5.0, 7.0),
    (1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0),
)
_DASHES = ("", (4, 1.5), (1, 1), (3, 1, 1, 1), (5, 1, 1, 1, 1, 1), (2, 2))


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
            "svg.hashsalt": "thinwire",
        },
    )


def looks(methods: Sequence[str], baselines: Collection[str] = ()) -> dict[str, object]:
    """Colour, marker, dash and width of each method, so that methods can be distinguished without colour.

    Baselines are black and thick.
    """
    others = [method for method in methods if method not in baselines]
    palette = dict.fromkeys(methods, _BASELINE_COLOUR)
    palette |= {method: _COLOURS[i % len(_COLOURS)] for i, method in enumerate(others)}
    return {
        "palette": palette,
        "markers": {method: _MARKERS[i % len(_MARKERS)] for i, method in enumerate(methods)},
        "dashes": {method: _DASHES[i % len(_DASHES)] for i, method in enumerate(methods)},
        "sizes": {method: _THICK if method in baselines else _THIN for method in methods},
    }


def lower_thick_lines(axes: Axes) -> None:
    """Draw thick lines first: a thin line that coincides with one is then seen on top of it."""
    for line in axes.get_lines():
        if line.get_linewidth() >= _THICK:
            line.set_zorder(1.5)


def ticks(axes: Axes, log: bool) -> None:
    """Put ticks at whole epochs; on a logarithmic axis, at as many plain numbers as have room."""
    if not log:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        return
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(_log_locator(*axes.get_xlim()))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _log_locator(low: float, high: float) -> LogLocator:
    """The locator with the fewest ticks between two numbers, but at least three."""
    locators = [LogLocator(subs=subs) for subs in _TICKS_OF_A_DECADE]
    for locator in locators:
        if sum(low <= tick <= high for tick in locator.tick_values(low, high)) >= _LEAST_TICKS:
            return locator
    return locators[-1]


def save(figure: Figure, stem: Path) -> None:
    """Write the figure in all formats, without date and version, so the bytes are the same every time."""
    with writing(stem):
        stem.parent.mkdir(parents=True, exist_ok=True)
        for end, options in _WRITTEN.items():
            figure.savefig(stem.with_suffix(f".{end}"), bbox_inches="tight", **options)
