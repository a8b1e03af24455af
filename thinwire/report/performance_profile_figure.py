"""The figure `performance_profile`: in which share of cells a method needs few bytes to the target.

After Dolan and Moré, "Benchmarking optimization software with performance profiles", 2002.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thinwire.report import line_labels, style
from thinwire.report.accuracy_points import KINDS, MOST_LINES
from thinwire.report.figure_names import FEWEST_CELLS, PROFILE
from thinwire.report.panels import finish, say, unique
from thinwire.report.savings import CELL

_LEAST_AXIS = 4.0  # ratio up to which the axis reaches at least
_LEFT, _BOTTOM, _TOP, _HEIGHT = 0.48, 0.42, 0.2, 1.75  # inches around and of the axes


def write(to_target: pd.DataFrame, folder: Path, baselines: Collection[str] = ()) -> None:
    """Draw a line for each method, a panel for each kind that has enough cells.

    Args:
        to_target: one row for each cell, method, kind and target; a miss has infinitely many bytes.
        folder: for the figure.
        baselines: labels of methods with thick black lines.
    """
    kinds = unique(to_target.kind) if len(to_target) else []
    profiles = {kind: profile(to_target[to_target.kind == kind]) for kind in kinds}
    profiles = {kind: ratios for kind, ratios in profiles.items() if len(ratios) >= FEWEST_CELLS}
    if not profiles:
        say(
            f"A performance profile needs {FEWEST_CELLS} cells in which the target is reached.",
            folder / PROFILE,
        )
        return
    methods = unique(to_target.method)
    looks = style.looks(methods, baselines)
    height = _BOTTOM + _HEIGHT + _TOP
    figure = plt.figure(figsize=(style.COLUMN_INCHES, len(profiles) * height))
    right = line_labels.room_beside(methods) + 0.04
    for number, (kind, ratios) in enumerate(profiles.items()):
        bottom = (len(profiles) - number - 1) * height + _BOTTOM
        width = style.COLUMN_INCHES - _LEFT - right
        total = len(profiles) * height
        axes = figure.add_axes(
            (_LEFT / style.COLUMN_INCHES, bottom / total, width / style.COLUMN_INCHES, _HEIGHT / total)
        )
        _lines(axes, ratios, looks, baselines)
        axes.set_title(f"{len(ratios)} cells, {KINDS.get(kind, kind)}", fontsize=7, loc="left")
    note = (
        "bytes: payload pushed and pulled until the first evaluation that reaches the highest target of the "
        "cell, median over the runs; a miss needs infinitely many; cells in which nobody reaches it are left "
        "out"
    )
    finish(figure, folder / PROFILE, note)


def profile(to_target: pd.DataFrame) -> pd.DataFrame:
    """The ratio of each method's bytes to the fewest in the same cell: rows are cells, columns are methods.

    It is for the highest target of a cell, and infinite where the method misses it or has no run.
    """
    highest = to_target.groupby(CELL).target_accuracy_percent.transform("max")
    rows = to_target[to_target.target_accuracy_percent == highest]
    needed = rows.pivot_table(
        index=CELL, columns="method", values="payload_bytes_median", aggfunc="first", sort=False, dropna=False
    )
    needed = needed.reindex(columns=unique(to_target.method)).dropna(how="all").fillna(np.inf)
    fewest = needed.min(axis=1)
    reached = np.isfinite(fewest) & (fewest > 0)
    return needed[reached].div(fewest[reached], axis=0)


def _lines(axes: Axes, ratios: pd.DataFrame, looks: dict[str, Any], baselines: Collection[str]) -> None:
    finite = ratios.to_numpy()[np.isfinite(ratios.to_numpy())]
    most = max(_LEAST_AXIS, finite.max()) * 1.1
    areas = {method: _area(ratios[method], most) for method in ratios}
    best = sorted((m for m in ratios if m not in baselines), key=lambda m: (-areas[m], m))
    strong = {*baselines, *best[: MOST_LINES - len(baselines)]}
    ends = []
    for method in ratios:
        reached = np.sort(ratios[method][np.isfinite(ratios[method])])
        shares = np.arange(1, len(reached) + 1) / len(ratios)
        x, y = (
            np.concatenate([[1], reached, [most]]),
            np.concatenate([[0], shares, [len(reached) / len(ratios)]]),
        )
        how: dict[str, Any] = {"color": "0.62", "linewidth": 0.7}
        if method in strong:
            dashes = looks["dashes"][method] or (None, None)
            how = {"color": looks["palette"][method], "linewidth": looks["sizes"][method], "dashes": dashes}
        axes.step(x, 100 * y, where="post", zorder=1.5 if method in baselines else 2, label=method, **how)
        colour = how["color"] if method in strong else "0.4"
        ends.append(line_labels.End(method, most, 100 * y[-1], colour, method in baselines))
    axes.set_xlim(1, most)
    axes.set_ylim(-2, 102)
    style.ticks(axes, log=True)
    axes.set_xlabel("bytes to the target over the fewest of any method", fontsize=7)
    axes.set_ylabel("share of cells, %", fontsize=7)
    line_labels.beside(axes, ends)


def _area(ratios: pd.Series, most: float) -> float:
    """The area under the line of a method, on the logarithmic axis."""
    return float(np.log(most / ratios.clip(upper=most)).mean())
