"""Figures of speed-ups over the better baseline: on clusters, over workers, and over the rate of links."""

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

from thinwire.report.figures import style
from thinwire.report.figures.labels import Label, shortened, text_width, wrapped, write_beside
from thinwire.report.figures.looks import end_of, layout, line_look, with_baselines
from thinwire.report.figures.style import HOLLOW, LineLook, finish, grid, legend, name_methods, say, task_of
from thinwire.report.report_files import fixed
from thinwire.report.rows.quantities import faster_ranges
from thinwire.simulation.simulated_file import VALIDATED_WORKERS

SPEED_UP = "speed_up_simulated"
_MARKERS = "osD^vP"
_APART = 0.6  # of the distance between two methods
_COLOURS = ("#0173b2", "#de8f05", "#029e73", "#cc78bc", "#ca9161", "#56b4e9")


def write_speed_up(rows: pd.DataFrame, folder: Path, baselines: Sequence[str]) -> None:
    """Draw a point for each method and cluster: a panel for each data set, model and kind.

    Points of runs with a process for each worker are full, and in panels of their own.
    """
    rows = rows[rows.speed_up.notna()]
    if rows.empty:
        say("No step of a method can be compared with that of a baseline.", folder / SPEED_UP)
        return
    rows = rows.assign(task=task_of(rows), place=rows.cluster.where(rows.cluster != "", "as it ran"))
    tasks, places, methods = (list(rows[name].unique()) for name in ("task", "place", "method"))
    inches = (style.COLUMN_INCHES, 0.7 + 0.2 * len(methods))
    figure, all_axes = grid(len(tasks), min(2, len(tasks)), inches, sharey=True, sharex=True)
    looks: dict[str, LineLook] = {
        place: {"linestyle": "", "marker": _MARKERS[i % len(_MARKERS)], "color": _COLOURS[i % len(_COLOURS)]}
        for i, place in enumerate(places)
    }
    for axes, task in zip(all_axes, tasks):
        of_task = rows[rows.task == task]
        axes.axvline(1, color="0.1", linewidth=2)
        for number, (place, look) in enumerate(looks.items()):
            points = of_task[of_task.place == place]
            # Points of one method lie below each other, so that none hides another.
            beside = _APART * (number - (len(looks) - 1) / 2) / len(looks)
            at = [methods.index(method) + beside for method in points.method]
            axes.plot(points.speed_up, at, markersize=5, **_filled(look, points))
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
        name_methods(axes, methods, baselines)
        workers = "/".join(map(str, of_task.workers.unique()))
        axes.set_title(f"{task}, {workers} workers", fontsize=7)
        axes.tick_params(labelbottom=True)
    legend(figure, [Line2D([], [], **_filled(look, rows)) for look in looks.values()], places)
    over = f"speed-up over the better of {', '.join(name for name in baselines if name in methods)}"
    figure.supxlabel(wrapped(over, figure.get_figwidth(), 7), fontsize=7)
    finish(figure, folder / SPEED_UP, "hollow: simulated; full: measured or emulated")


def _filled(look: LineLook, points: pd.DataFrame) -> LineLook:
    """Points that no run has measured are hollow."""
    return look | HOLLOW if (points.kind == "simulated").all() else look


SPEED_UP_OVER_WORKERS = "speed_up_over_workers"
_GREY = "0.5"
_WIDER = 1.15  # the axes than their points, on each side


def write_speed_up_over_workers(rows: pd.DataFrame, folder: Path, baselines: Sequence[str]) -> None:
    """Draw a line for each method, in a panel for each task and cluster."""
    if rows.empty:
        say("No simulated step can be shown over the number of workers.", folder / SPEED_UP_OVER_WORKERS)
        return
    rows = rows.assign(task=task_of(rows), images_per_second=rows.batch_images / rows.step_seconds)
    # Those with the largest speed-ups on the most workers.
    largest = rows[rows.workers == rows.workers.max()].groupby("method").speed_up.median().sort_values()
    shown = with_baselines(rows.method.unique(), largest.index[::-1], baselines)
    groups = list(rows.groupby(["task", "cluster"], sort=False))
    panels = [_over_fewest(own, baselines) for _, own in groups]
    titles = [f"{task}, on {cluster}" for (task, cluster), _ in groups]
    figure, all_axes = layout(titles, ["ideal", *shown])
    # All panels have one scale, so that they can be compared.
    every = pd.concat(panels)[["over_fewest", "ideal"]].to_numpy()
    every = every[np.isfinite(every)]
    for axes, lines in zip(all_axes, panels):
        _scale_of_workers(axes, sorted(set(lines.workers)), every.min() / _WIDER, every.max() * _WIDER)
        _lines(axes, lines, shown, baselines)
    few, many = VALIDATED_WORKERS
    note = (
        f"simulated; speed-up: images a second over those of the better of {', '.join(baselines)} on the "
        f"fewest workers; shaded: {few} to {many} workers, which validation covers"
    )
    if left_out := rows.method.nunique() - len(shown):
        note += f"; the {left_out} slowest methods are left out"
    finish(figure, folder / SPEED_UP_OVER_WORKERS, note)


def _over_fewest(rows: pd.DataFrame, baselines: Sequence[str]) -> pd.DataFrame:
    """The rows of a panel with the speed-up over the better baseline on the fewest workers, and the ideal."""
    fewest = rows.workers.min()
    one = rows[(rows.workers == fewest) & rows.method.isin(baselines)].images_per_second.max()
    return rows.assign(over_fewest=rows.images_per_second / one, ideal=rows.workers / fewest)


def _scale_of_workers(axes: Axes, workers: Sequence[int], low: float, high: float) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xticks(workers, map(str, workers))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("workers", fontsize=7)
    axes.set_ylabel("speed-up", fontsize=7)
    axes.set_xlim(workers[0] / _WIDER, workers[-1] * _WIDER)
    axes.set_ylim(low, high)


def _lines(axes: Axes, rows: pd.DataFrame, shown: Sequence[str], baselines: Sequence[str]) -> None:
    """Draw the ideal and the methods of a panel, with labels at the ends of the lines."""
    axes.axvspan(*VALIDATED_WORKERS, color="0.9", linewidth=0, zorder=0)
    ideal = rows.drop_duplicates("workers").sort_values("workers")
    axes.plot(ideal.workers, ideal.ideal, label="ideal", color=_GREY, linewidth=0.8, linestyle=":")
    ends = [Label("ideal", ideal.workers.iloc[-1], ideal.ideal.iloc[-1], _GREY)]
    for method in shown:
        line = rows[rows.method == method].sort_values("workers")
        line = line[np.isfinite(line.over_fewest)]
        if line.empty:
            continue
        look = line_look(method, shown, baselines)
        axes.plot(line.workers, line.over_fewest, **(look | HOLLOW))
        ends.append(end_of(look, line.workers.iloc[-1], line.over_fewest.iloc[-1], baselines))
    write_beside(axes, ends)


BANDWIDTH = "bandwidth"
# White where a method is as fast as the baseline, blue where it is faster.
_SPEED_COLOURS, _SCALE = "RdBu", LogNorm(1 / 16, 16)
_FASTER = 1.005  # would not be printed as 1.00
_TASK, _PLACE = ["dataset", "model"], ["cluster", "workers"]
# A figure is then no wider than a page, so that its numbers are not made smaller.
_MOST_COLUMNS = 2
_CELL_INCHES, _ROW_INCHES = 0.26, 0.115
_RANGE_INCHES, _GAP_INCHES = 0.5, 0.1  # right of a table, at least; and the space to the next
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
    tables = {names: _table(of_panels.get(names, rows[:0]), methods, rates) for names in panels}
    columns = len(places) if 1 < len(places) <= _MOST_COLUMNS else min(_MOST_COLUMNS, len(panels))
    common = [name for name in (*_TASK, *_PLACE) if rows[name].nunique() == 1]
    shown = shortened(methods, _NAME_INCHES, _NAME_POINTS).values()
    widest = max(text_width(name, _NAME_POINTS, bold=True) for name in shown)
    known = [row for table in tables.values() for _, row in table.dropna(how="all").iterrows()]
    ranges = max((text_width(_described(row), _NAME_POINTS) for row in known), default=0.0)
    cells = _CELL_INCHES * len(rates) + max(_RANGE_INCHES, ranges + _GAP_INCHES)
    below = _BELOW_INCHES / -(-len(panels) // columns)
    inches = (cells + widest / columns, _ROW_INCHES * len(methods) + _ABOVE_INCHES + below)
    figure, all_axes = grid(len(panels), columns, inches, sharey=True)
    for number, (axes, names_of) in enumerate(zip(all_axes, panels)):
        where = dict(zip((*_TASK, *_PLACE), names_of))
        _draw_table(axes, tables[names_of], rates, baselines)
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


def _table(rows: pd.DataFrame, methods: list[str], rates: list[float]) -> pd.DataFrame:
    """The speed-ups of methods at rates."""
    table = rows.pivot_table(index="method", columns="rate_gbit_per_second", values="speed_up")
    return table.reindex(index=methods, columns=rates)


def _draw_table(axes: Axes, table: pd.DataFrame, rates: list[float], baselines: Sequence[str]) -> None:
    axes.imshow(table, aspect="auto", cmap=_SPEED_COLOURS, norm=_SCALE)
    axes.set_xticks(range(len(rates)), [f"{rate:g}" for rate in rates])
    axes.grid(False)
    for place, (method, row) in enumerate(table.iterrows()):
        missing = row.isna().all()
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
        if missing:
            axes.text(0, place, "no simulated time", va="center", fontsize=_NAME_POINTS, color="0.4")
        if method in baselines or missing:
            continue
        for edge, (left, right) in enumerate(pairwise(row), 1):
            if min(left, right) <= 1 < max(left, right):  # False, if one is missing
                axes.plot([edge - 0.5] * 2, [place - 0.5, place + 0.5], color="black", linewidth=1.8)
        axes.text(len(rates) - 0.4, place, _described(row), va="center", fontsize=_NAME_POINTS)


def _described(speed_ups: pd.Series) -> str:
    """The ranges of rates, which are the index, in which a method is faster."""
    known = speed_ups.dropna()
    ranges = faster_ranges(list(known.index), list(known))
    return ", ".join(_range(*between) for between in ranges) or "never"


def _range(low: float, high: float) -> str:
    if math.isinf(high):
        return f"> {low:.2g}" if low else "always"
    return f"{low:.2g} to {high:.2g}" if low else f"< {high:.2g}"
