"""The figure `step_breakdown`: what a step of each method consists of, on each cluster."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from thinwire.report import style
from thinwire.report.panels import finish, grid, legend, name_methods, panel, say, task_of, unique
from thinwire.report.step_parts import stacked_bars

NAME = "step_breakdown"


def write(rows: pd.DataFrame, folder: Path, baselines: Sequence[str]) -> None:
    """Draw stacked bars: a column of panels for each cluster, a row for each data set, model and profile."""
    if rows.empty:
        say("No step has been simulated: there is nothing to break down.", folder / NAME)
        return
    rows = rows.assign(task=task_of(rows))
    tasks, clusters, methods = unique(rows.task), unique(rows.cluster), unique(rows.method)
    inches = (2 * style.COLUMN_INCHES / max(2, len(clusters)), 0.6 + 0.15 * len(methods))
    figure, all_axes = grid(len(tasks), len(clusters), inches, sharey=True)
    for axes_of_task, task in zip(all_axes, tasks):
        for axes, cluster in zip(axes_of_task, clusters):
            _bars(axes, panel(rows, task=task, cluster=cluster), methods)
            name_methods(axes, methods, baselines)
            workers = "/".join(map(str, unique(panel(rows, task=task).workers)))
            axes.set_title(f"{task}\n{workers} workers on {cluster}", fontsize=7)
    for axes in all_axes[-1]:
        axes.set_xlabel("ms a step")
    handles, labels = all_axes[0][0].get_legend_handles_labels()
    legend(figure, handles, labels)
    finish(figure, folder / NAME, "simulated; means over the steps and the workers; scales differ")


def _bars(axes: Axes, rows: pd.DataFrame, methods: list[str]) -> None:
    by_method = rows.set_index("method").reindex(methods)
    ends = stacked_bars(axes, by_method)
    axes.set_xlim(0, 1.05 * ends.max())
    for place, missing in enumerate(by_method.compute_seconds.isna()):
        if missing:
            axes.text(0, place, " no simulated time", va="center", fontsize=6, color="0.4")
