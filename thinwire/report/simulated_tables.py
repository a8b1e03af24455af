"""The table and the figure of HSGD's ratio, which only the simulator gives."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator
from numpy.typing import NDArray

from thinwire.report import report_files
from thinwire.report.figures import style
from thinwire.report.figures.style import finish, grid
from thinwire.report.report_files import HSGD_RATIO

# The publication names the one that is drawn thick.
LEVELS, PUBLISHED = (2, 5, 10, 20, 50), 20
_PANEL_INCHES = 2.0  # the height
_THIN, _THICK = 0.8, 2.2


def write_hsgd_ratio(rows: pd.DataFrame, results: Path) -> list[Path]:
    """Write the table and the figure, with the same bytes every time; returns the paths of both.

    Args:
        rows: as `ratios` gives them; for each number of nodes a whole grid.
        results: the folder of results.
    """
    table = results / "tables" / f"{HSGD_RATIO}.csv"
    report_files.write_table(rows, table)
    stem = results / "figures" / HSGD_RATIO
    style.use()
    nodes = rows.nodes.unique()
    inches = (style.COLUMN_INCHES / len(nodes), _PANEL_INCHES)
    figure, all_axes = grid(len(nodes), len(nodes), inches, sharey=True)
    for axes, number in zip(all_axes, nodes):
        own = rows[rows.nodes == number]
        _contours(axes, own)
        axes.set_title(f"{number} nodes,\n{own.workers.iloc[0]} workers", fontsize=7)
    all_axes[0].set_ylabel("computing, s a step")
    figure.supxlabel("Gbit/s of a node's link", fontsize=8)
    (cluster,), (accelerator,) = rows.cluster.unique(), rows.accelerator.unique()
    note = f"simulated, {cluster} with links of other rates, computing scaled from {accelerator}"
    finish(figure, stem, f"{note}; a line: so many times the highest rung's step")
    return [table, stem.with_suffix(".pdf")]


def _contours(axes: Axes, rows: pd.DataFrame) -> None:
    """Draw a line for each level that the ratio passes, interpolated on logarithmic axes."""
    table = rows.pivot(index="compute_seconds", columns="rate_gbit_per_second", values="ratio")
    axes.set_xscale("log")
    axes.set_yscale("log")
    passed = [level for level in LEVELS if table.min().min() < level < table.max().max()]
    if passed:
        lines = axes.contour(
            table.columns,
            table.index,
            np.log(table.to_numpy()),
            levels=np.log(passed),
            colors="0.1",
            linewidths=[_THICK if level == PUBLISHED else _THIN for level in passed],
            linestyles="solid",
        )
        middles = [_middle(np.asarray(path.vertices)) for path in lines.get_paths()]
        axes.clabel(lines, fmt=lambda value: f"{np.exp(value):.0f}", fontsize=6, manual=middles)
    for axis, numbers in ((axes.xaxis, table.columns), (axes.yaxis, table.index)):
        axis.set_major_locator(FixedLocator(_decades_between(float(min(numbers)), float(max(numbers)))))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_locator(NullLocator())


def _middle(line: NDArray[np.float64]) -> tuple[float, float]:
    """The point of a line, as an array of [points, 2], that is nearest to the middle between its ends."""
    logs = np.log(line)
    away = ((logs - (logs[0] + logs[-1]) / 2) ** 2).sum(axis=1)
    x, y = line[away.argmin()]
    return float(x), float(y)


def _decades_between(low: float, high: float) -> list[float]:
    """The powers of ten in an axis, without its ends, where a label would touch that of the next panel."""
    exponents = range(math.floor(math.log10(low)) + 1, math.ceil(math.log10(high)))
    return [10.0**exponent for exponent in exponents]
