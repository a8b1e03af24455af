"""The style of the figures, readable in print, and how they are written: with the same bytes every time."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from thinwire.files import writing
from thinwire.report.method_looks import THICK

COLUMN_INCHES = 3.35  # width of a column in a two-column paper
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


def lower_thick_lines(axes: Axes) -> None:
    """Draw thick lines first: a thin line that coincides with one is then seen on top of it."""
    for line in axes.get_lines():
        if line.get_linewidth() >= THICK:
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
