"""The figure `speed_up_over_workers`: images a second against the number of workers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullLocator

from thinwire.report import style
from thinwire.report.line_panels import MOST_LINES
from thinwire.report.panels import HOLLOW, finish, grid, panel, say, task_of, unique
from thinwire.simulation.validated_range import VALIDATED_WORKERS

NAME = "speed_up_over_workers"


def write(rows: pd.DataFrame, folder: Path, baselines: Sequence[str]) -> None:
    """Draw a line for each method: a column of panels for each cluster, a row for each task and profile."""
    if rows.empty:
        say("No simulated step can be shown over the number of workers.", folder / NAME)
        return
    rows = rows.assign(task=task_of(rows), images_per_second=rows.batch_images / rows.step_seconds)
    shown = _shown(rows, baselines)
    tasks, clusters = unique(rows.task), unique(rows.cluster)
    every = sorted(set(rows.workers))
    inches = (2 * style.COLUMN_INCHES / max(2, len(clusters)), 2.2)
    figure, all_axes = grid(len(tasks), len(clusters), inches, sharex=True, sharey="row")
    looks = style.looks(shown, baselines)
    for axes_of_task, task in zip(all_axes, tasks):
        for axes, cluster in zip(axes_of_task, clusters):
            _lines(axes, panel(rows, task=task, cluster=cluster), shown, baselines, looks)
            axes.set_title(f"{task}\non {cluster}", fontsize=7)
            axes.set_xticks(every, map(str, every))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes_of_task[0].set_ylabel("speed-up")
    for axes in all_axes[-1]:
        axes.set_xlabel("workers")
    entries = {
        label: handle for axes in all_axes.flat for handle, label in zip(*axes.get_legend_handles_labels())
    }
    figure.legend(
        [entries[name] for name in ("ideal", *shown)],
        ["ideal", *shown],
        loc="outside upper center",
        ncols=5,
        frameon=False,
        handlelength=3.5,
    )
    few, many = VALIDATED_WORKERS
    note = (
        f"simulated; speed-up: images a second over those of the better of {', '.join(baselines)} on the "
        f"fewest workers; shaded: {few} to {many} workers, which validation covers"
    )
    if left_out := len(unique(rows.method)) - len(shown):
        note += f"; the {left_out} slowest methods are left out"
    finish(figure, folder / NAME, note)


def _shown(rows: pd.DataFrame, baselines: Sequence[str]) -> list[str]:
    """The baselines and the fastest methods, in the order of the table."""
    methods = unique(rows.method)
    most = rows[rows.workers == rows.workers.max()]
    others = most[~most.method.isin(baselines)].groupby("method").speed_up.median().sort_values()
    fastest = {*baselines, *others.index[::-1][: MOST_LINES - len(baselines)]}
    return [method for method in methods if method in fastest]


def _lines(
    axes: Axes, rows: pd.DataFrame, shown: Sequence[str], baselines: Sequence[str], looks: dict[str, Any]
) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.axvspan(*VALIDATED_WORKERS, color="0.9", linewidth=0, zorder=0)
    if rows.empty:
        return
    fewest = rows.workers.min()
    first = panel(rows, workers=fewest)
    one = first[first.method.isin(baselines)].images_per_second.max()
    every = sorted(set(rows.workers))
    axes.plot(every, [w / fewest for w in every], color="0.5", linewidth=0.8, linestyle=":", label="ideal")
    for method in shown:
        line = panel(rows, method=method).sort_values("workers")
        axes.plot(
            line.workers,
            line.images_per_second / one,
            label=method,
            color=looks["palette"][method],
            marker=looks["markers"][method],
            dashes=looks["dashes"][method] or (None, None),
            linewidth=looks["sizes"][method],
            zorder=1.5 if method in baselines else 2,
            **HOLLOW,
        )
