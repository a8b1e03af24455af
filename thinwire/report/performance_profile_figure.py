"""The figure `performance_profile`: in which share of cells a method needs few bytes to the target.

After Dolan and Moré, "Benchmarking optimization software with performance profiles", 2002.
"""

from collections.abc import Collection
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thinwire.report import line_labels, method_looks, style
from thinwire.report.accuracy_points import KINDS
from thinwire.report.line_panels import end_of, layout, line_look
from thinwire.report.lines_that_stand_out import cheap
from thinwire.report.panels import finish, say, unique
from thinwire.report.result_names import FEWEST_CELLS, PROFILE
from thinwire.report.savings import CELL
from thinwire.statistics.performance_profile import ratios

_LEAST_AXIS = 4.0  # ratio up to which the axis reaches at least


def write(to_target: pd.DataFrame, folder: Path, baselines: Collection[str] = ()) -> None:
    """Draw a line for each method, a panel for each kind that has enough cells.

    Args:
        to_target: one row for each cell, method, kind and target; a miss has infinitely many bytes.
        folder: for the figure.
        baselines: labels of methods with thick black lines.
    """
    kinds = unique(to_target.kind) if len(to_target) else []
    profiles = {kind: profile(to_target[to_target.kind == kind]) for kind in kinds}
    profiles = {kind: found for kind, found in profiles.items() if len(found) >= FEWEST_CELLS}
    if not profiles:
        say(
            f"A performance profile needs {FEWEST_CELLS} cells in which the target is reached.",
            folder / PROFILE,
        )
        return
    methods = unique(to_target.method)
    looks = method_looks.looks(methods, baselines)
    titles = [f"{len(found)} cells, {KINDS.get(kind, kind)}" for kind, found in profiles.items()]
    figure, all_axes = layout(titles, methods, above=False)
    for axes, found in zip(all_axes, profiles.values()):
        _lines(axes, found, looks, baselines)
    note = (
        "bytes: payload pushed and pulled until the first evaluation that reaches the highest target of the "
        "cell, median over the runs; a miss needs infinitely many; cells in which nobody reaches it, or the "
        "method has no run, are left out"
    )
    finish(figure, folder / PROFILE, note)


def profile(to_target: pd.DataFrame) -> pd.DataFrame:
    """The ratio of each method's bytes to the fewest in the same cell: rows are cells, columns are methods.

    It is for the highest target of a cell. It is infinite where the method misses that, and missing where the
    method has no run. Cells in which nobody reaches the target have no row.
    """
    highest = to_target.groupby(CELL).target_accuracy_percent.transform("max")
    rows = to_target[to_target.target_accuracy_percent == highest].drop_duplicates([*CELL, "method"])
    needed = rows.pivot(index=CELL, columns="method", values="payload_bytes_median")
    needed = needed.reindex(columns=unique(to_target.method))
    reached = np.isfinite(needed.to_numpy()).any(axis=1)
    return ratios(needed[reached]).dropna(axis=1, how="all")


def _lines(axes: Axes, found: pd.DataFrame, looks: dict[str, object], baselines: Collection[str]) -> None:
    finite = found.to_numpy()[np.isfinite(found.to_numpy())]
    most = max(_LEAST_AXIS, finite.max()) * 1.1
    stand_out = cheap(found, most, baselines)
    ends = []
    for method in found:
        reached = np.sort(found[method][np.isfinite(found[method])])
        percent = 100 * np.arange(len(reached) + 1) / found[method].count()
        look = line_look(str(method), looks, stand_out, baselines)
        axes.step([1, *reached, most], [*percent, percent[-1]], where="post", **look)
        ends.append(end_of(look, most, percent[-1], baselines))
    axes.set_xlim(1, most)
    axes.set_ylim(-2, 102)
    style.ticks(axes, log=True)
    axes.set_xlabel("bytes to the target over the fewest of any method", fontsize=7)
    axes.set_ylabel("share of cells, %", fontsize=7)
    line_labels.beside(axes, ends)
