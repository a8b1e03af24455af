"""Figures over the rate of the links."""

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm

from thinwire.report.figures import style
from thinwire.report.figures.fitted_text import shortened, text_width
from thinwire.report.figures.steps import PARTS, legend_of_parts, stacked_bars
from thinwire.report.figures.style import finish, grid, name_methods, say, task_of
from thinwire.report.report_files import fixed
from thinwire.report.rows.quantities import faster_between
from thinwire.report.tables import numbers

BANDWIDTH = "bandwidth"
# White where a method is as fast as the baseline, blue where it is faster.
_COLOURS, _SCALE = "RdBu", LogNorm(1 / 16, 16)
_FASTER = 1.005  # would not be printed as 1.00
_TASK, _PLACE = ["dataset", "model"], ["cluster", "workers"]
# A figure is then no wider than a page, so that its numbers are not made smaller.
_MOST_COLUMNS = 2
_CELL_INCHES, _ROW_INCHES = 0.26, 0.115
_RANGE_INCHES = 0.5  # right of a table, and the space to the next
_ABOVE_INCHES, _BELOW_INCHES = 0.2, 0.4  # titles above each line of panels, rates below the last one
_NAME_INCHES, _NAME_POINTS = 1.2, 6.0
_BRIGHT_WITHIN = 6.0  # times faster or slower; here black text is easier to read than white text


def write_bandwidth(rows: pd.DataFrame, folder: Path, baselines: Sequence[str]) -> None:
    """Draw a table of speed-ups for each cluster and task: a row for each method, a column for each rate."""
    if rows.empty:
        say("No step has been simulated at any rate of the links.", folder / BANDWIDTH)
        return
    methods, rates = list(rows.method.unique()), sorted(set(rows.rate_gbit_per_second))
    tasks, places = ([names for names, _ in rows.groupby(by, sort=False)] for by in (_TASK, _PLACE))
    panels = [(*task, *place) for task in tasks for place in places]
    of_panels = dict(iter(rows.groupby([*_TASK, *_PLACE])))
    columns = len(places) if 1 < len(places) <= _MOST_COLUMNS else min(_MOST_COLUMNS, len(panels))
    common = [name for name in (*_TASK, *_PLACE) if rows[name].nunique() == 1]
    shown = shortened(methods, _NAME_INCHES, _NAME_POINTS).values()
    widest = max(text_width(name, _NAME_POINTS, bold=True) for name in shown)
    cells = _CELL_INCHES * len(rates) + _RANGE_INCHES
    below = _BELOW_INCHES / -(-len(panels) // columns)
    inches = (cells + widest / columns, _ROW_INCHES * len(methods) + _ABOVE_INCHES + below)
    figure, all_axes = grid(len(panels), columns, inches, sharey=True)
    for number, (axes, names_of) in enumerate(zip(all_axes, panels)):
        where = dict(zip((*_TASK, *_PLACE), names_of))
        _table(axes, of_panels.get(names_of, rows[:0]), methods, rates, baselines)
        name_methods(axes, methods, baselines)
        lowest = number + columns >= len(panels)
        axes.tick_params(axis="both", labelsize=_NAME_POINTS, pad=1, labelbottom=lowest)
        named = [
            ", ".join(_named(name, where[name]) for name in names if name not in common)
            for names in (_TASK, _PLACE)
        ]
        axes.set_title("\n".join(filter(None, named)), fontsize=_NAME_POINTS)
    figure.supxlabel("rate of each link, Gbit/s", fontsize=7)
    first = rows.iloc[0]
    there = [name for name in baselines if name in set(rows.method)]
    note = (
        f"simulated: {', '.join(_named(name, first[name]) for name in common)}; speed-up over the better of "
        f"{', '.join(there)}; bold: faster; right column: the rates in Gbit/s at which a method is "
        "faster; thick lines: the break-even lies here"
    )
    finish(figure, folder / BANDWIDTH, note)


def _named(column: str, value: object) -> str:
    """One thing that the steps of a panel have in common, in words."""
    words = {"cluster": "latency of {}", "workers": "{} workers"}
    return words.get(column, "{}").format(value)


def _table(
    axes: Axes, rows: pd.DataFrame, methods: list[str], rates: list[float], baselines: Sequence[str]
) -> None:
    table = rows.pivot_table(index="method", columns="rate_gbit_per_second", values="speed_up")
    table = table.reindex(index=methods, columns=rates)
    axes.imshow(table, aspect="auto", cmap=_COLOURS, norm=_SCALE)
    axes.set_xticks(range(len(rates)), [f"{rate:g}" for rate in rates])
    axes.grid(False)
    for place, (method, row) in enumerate(table.iterrows()):
        known = row.dropna()
        for column, speed_up in enumerate(row):
            if not np.isnan(speed_up):
                axes.text(
                    column,
                    place,
                    fixed(speed_up, 2 if speed_up < 9.995 else 0),
                    ha="center",
                    va="center",
                    fontsize=_NAME_POINTS,
                    fontweight="bold" if speed_up > _FASTER else "normal",
                    color="black" if 1 / _BRIGHT_WITHIN < speed_up < _BRIGHT_WITHIN else "white",
                )
        if known.empty:
            axes.text(0, place, "no simulated time", va="center", fontsize=_NAME_POINTS, color="0.4")
        if method in baselines or known.empty:
            continue
        for edge, (left, right) in enumerate(pairwise(row), 1):
            if min(left, right) <= 1 < max(left, right):  # False, if one is missing
                axes.plot([edge - 0.5] * 2, [place - 0.5, place + 0.5], color="black", linewidth=1.8)
        text = _described(faster_between(list(known.index), list(known)))
        axes.text(len(rates) - 0.4, place, text, va="center", fontsize=_NAME_POINTS)


def _described(faster: tuple[float, float] | None) -> str:
    if faster is None:
        return "never"
    low, high = faster
    if math.isinf(high):
        return f"> {low:.2g}" if low else "always"
    return f"{low:.2g} to {high:.2g}" if low else f"< {high:.2g}"


LADDER = "ladder"
_NOTE = "number at a bar: step of the first rung over this one; below the line: methods that are no rungs"
_ROOM_FOR_NUMBERS = 1.25  # of the longest bar


def write_ladder(table: pd.DataFrame, folder: Path) -> None:
    """Draw a bar for each row of `ladder.ladder`: a panel for each task, cluster and kind.

    Simulated bars show their parts. Bars of runs are plain.
    """
    style.use()
    if table.empty:
        say("No step of a rung has a time.", folder / LADDER)
        return
    table = table.assign(task=task_of(table), place=table.cluster.where(table.cluster != "", "as it ran"))
    panels = list(table.groupby(["task", "place", "kind", "workers"], sort=False))
    inches = (style.COLUMN_INCHES, 0.7 + 0.16 * max(len(rows) for _, rows in panels))
    figure, all_axes = grid(len(panels), 1, inches)
    for axes, ((task, place, _, workers), rows) in zip(all_axes, panels):
        _bars(axes, rows.reset_index(drop=True))
        axes.set_title(f"{task}\n{workers} workers on {place}", fontsize=7)
        axes.set_xlabel("ms a step")
    legend_of_parts(figure, all_axes)
    kinds = ", ".join(table.kind.unique())
    finish(figure, folder / LADDER, f"{kinds}; {_NOTE}; scales differ")


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
