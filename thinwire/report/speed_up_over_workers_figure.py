"""The figure `speed_up_over_workers`: images a second against the number of workers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullLocator

from thinwire.report import method_looks
from thinwire.report.line_labels import End, beside
from thinwire.report.line_panels import end_of, layout, line_look
from thinwire.report.lines_that_stand_out import fast
from thinwire.report.panels import HOLLOW, finish, panel, say, task_of, unique
from thinwire.simulation.validated_range import VALIDATED_WORKERS

NAME = "speed_up_over_workers"
_IDEAL: dict[str, Any] = {"color": "0.5", "linewidth": 0.8, "linestyle": ":"}
_WIDER = 1.15  # the axes than their points, on each side


def write(rows: pd.DataFrame, folder: Path, baselines: Sequence[str]) -> None:
    """Draw a line for each method, in a panel for each task, profile and cluster."""
    if rows.empty:
        say("No simulated step can be shown over the number of workers.", folder / NAME)
        return
    rows = rows.assign(task=task_of(rows), images_per_second=rows.batch_images / rows.step_seconds)
    shown = fast(rows, baselines)
    looks = method_looks.looks(shown, baselines)
    places = unique(rows[["task", "cluster"]])
    panels = [_over_fewest(panel(rows, task=task, cluster=cluster), baselines) for task, cluster in places]
    titles = [f"{task}, on {cluster}" for task, cluster in places]
    figure, all_axes = layout(titles, ["ideal", *shown], above=False)
    # All panels have one scale, so that they can be compared.
    every = pd.concat(panels)[["over_fewest", "ideal"]].to_numpy()
    every = every[np.isfinite(every)]
    for axes, lines in zip(all_axes, panels):
        _scale(axes, sorted(set(lines.workers)), every.min() / _WIDER, every.max() * _WIDER)
        _lines(axes, lines, shown, baselines, looks)
    few, many = VALIDATED_WORKERS
    note = (
        f"simulated; speed-up: images a second over those of the better of {', '.join(baselines)} on the "
        f"fewest workers; shaded: {few} to {many} workers, which validation covers"
    )
    if left_out := len(unique(rows.method)) - len(shown):
        note += f"; the {left_out} slowest methods are left out"
    finish(figure, folder / NAME, note)


def _over_fewest(rows: pd.DataFrame, baselines: Sequence[str]) -> pd.DataFrame:
    """The rows of a panel with the speed-up over the better baseline on the fewest workers, and the ideal."""
    fewest = rows.workers.min()
    one = panel(rows, workers=fewest)
    one = one[one.method.isin(baselines)].images_per_second.max()
    return rows.assign(over_fewest=rows.images_per_second / one, ideal=rows.workers / fewest)


def _scale(axes: Axes, workers: Sequence[int], low: float, high: float) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xticks(workers, map(str, workers))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel("workers", fontsize=7)
    axes.set_ylabel("speed-up", fontsize=7)
    axes.set_xlim(workers[0] / _WIDER, workers[-1] * _WIDER)
    axes.set_ylim(low, high)


def _lines(
    axes: Axes, rows: pd.DataFrame, shown: Sequence[str], baselines: Sequence[str], looks: dict[str, object]
) -> None:
    """Draw the ideal and the methods of a panel, with labels at the ends of the lines."""
    axes.axvspan(*VALIDATED_WORKERS, color="0.9", linewidth=0, zorder=0)
    ideal = rows.drop_duplicates("workers").sort_values("workers")
    axes.plot(ideal.workers, ideal.ideal, label="ideal", **_IDEAL)
    ends = [End("ideal", ideal.workers.iloc[-1], ideal.ideal.iloc[-1], _IDEAL["color"])]
    for method in shown:
        line = panel(rows, method=method).sort_values("workers")
        line = line[np.isfinite(line.over_fewest)]
        if line.empty:
            continue
        look = line_look(method, looks, shown, baselines)
        axes.plot(line.workers, line.over_fewest, **look, **HOLLOW)
        ends.append(end_of(look, line.workers.iloc[-1], line.over_fewest.iloc[-1], baselines))
    beside(axes, ends)
