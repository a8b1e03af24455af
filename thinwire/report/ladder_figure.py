"""The figure `ladder`: the seconds of a step on each rung, and how many times as long the first one takes."""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from thinwire.report import style
from thinwire.report.panels import finish, grid, legend, name_methods, panel, say, task_of, unique
from thinwire.report.step_parts import PARTS, stacked_bars
from thinwire.report.tables import numbers

NAME = "ladder"
_NOTE = "number at a bar: step of the first rung over this one; below the line: methods that are no rungs"
_ROOM_FOR_NUMBERS = 1.25  # of the longest bar


def write(table: pd.DataFrame, folder: Path) -> None:
    """Draw a bar for each row of `ladder.ladder`: a panel for each task, profile, cluster and kind.

    Simulated bars show their parts. Bars of runs are plain.
    """
    style.use()
    if table.empty:
        say("No step of a rung has a time.", folder / NAME)
        return
    table = table.assign(task=task_of(table), place=table.cluster.where(table.cluster != "", "as it ran"))
    panels = unique(table[["task", "place", "kind", "workers"]])
    most = max(len(panel(table, task=t, place=p, kind=k, workers=w)) for t, p, k, w in panels)
    inches = (style.COLUMN_INCHES, 0.7 + 0.16 * most)
    figure, all_axes = grid(len(panels), 1, inches)
    for axes, (task, place, kind, workers) in zip(all_axes.flat, panels):
        rows = panel(table, task=task, place=place, kind=kind, workers=workers).reset_index(drop=True)
        _bars(axes, rows)
        axes.set_title(f"{task}\n{workers} workers on {place}, {kind}", fontsize=7)
        axes.set_xlabel("ms a step")
    parts = _parts(all_axes.flat)
    if parts:
        legend(figure, [*parts.values()], [*parts])
    kinds = ", ".join(unique(table.kind))
    finish(figure, folder / NAME, f"{kinds}; {_NOTE}; scales differ")


def _bars(axes: Axes, rows: pd.DataFrame) -> None:
    if rows[[*PARTS]].isna().to_numpy().all():
        ends = rows.step_seconds * 1e3
        axes.barh(range(len(rows)), ends, height=0.72, color="0.45")
        axes.grid(False, axis="y")
    else:
        ends = stacked_bars(axes, rows)
    for number, (end, ratio) in enumerate(zip(ends, rows.first_over_this)):
        axes.text(end, number, f" {numbers.ratio(ratio)}", va="center", fontsize=6)
    axes.set_xlim(0, _ROOM_FOR_NUMBERS * ends.max())
    name_methods(axes, list(rows.method), [])
    if rows.rung.isna().any() and rows.rung.notna().any():
        axes.axhline(rows.rung.notna().sum() - 0.5, color="0.1", linewidth=0.6)


def _parts(panels: Iterable[Axes]) -> dict[str, Artist]:
    """The looks of the parts of bars, by their labels; none if all bars are plain."""
    legends = [axes.get_legend_handles_labels() for axes in panels]
    return {label: handle for handles, labels in legends for handle, label in zip(handles, labels)}
