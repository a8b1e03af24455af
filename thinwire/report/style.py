"""The style of the figures, readable in print, and how they are written: with the same bytes every time."""

from collections.abc import Collection, Sequence
from pathlib import Path

import matplotlib as mpl
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from thinwire.files import writing

COLUMN_INCHES = 3.35  # width of a column in a two-column paper
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "p", "h")
_BASELINE_COLOUR = (0.1, 0.1, 0.1)
_THICK, _THIN = 2.4, 1.0  # points
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
    palette |= dict(zip(others, sns.color_palette("colorblind", len(others))))
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
    low, high = axes.get_xlim()
    subs = (1.0,) if high > 100 * low else (1.0, 3.0) if high > 10 * low else (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
    axes.xaxis.set_major_locator(LogLocator(subs=subs))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def save(figure: Figure, stem: Path) -> None:
    """Write a PDF for print and a PNG for pages, without date and version, so they are reproducible."""
    with writing(stem):
        stem.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(
            stem.with_suffix(".pdf"),
            bbox_inches="tight",
            metadata={"CreationDate": None, "Creator": None, "Producer": None},
        )
        figure.savefig(stem.with_suffix(".png"), bbox_inches="tight", dpi=200, metadata={"Software": None})
