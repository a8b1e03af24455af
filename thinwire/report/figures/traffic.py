"""Figures of bytes: what each method pushes and pulls, and what it needs until it reaches a target.

`performance_profile` shows in which share of settings a method needs few bytes to the target (Dolan and Moré,
"Benchmarking optimization software with performance profiles", 2002).
"""

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from thinwire.base.learning import LearningTask
from thinwire.report.figures import style
from thinwire.report.figures.labels import write_beside
from thinwire.report.figures.looks import end_of, layout, line_look, with_baselines
from thinwire.report.report_files import FEWEST_SETTINGS, PROFILE, TRAFFIC_FIGURE
from thinwire.report.rows.quantities import BLOCK, SETTING
from thinwire.report.rows.to_target import ratios

# With looks that differ in grey, too. A hatch of dots would take 78 kB in each PDF.
_PAYLOADS = {
    "values": ("#0173b2", ""),
    "indices": ("#f0b050", "/////"),
    "scales": ("0.2", ""),
    "sizes": ("0.75", "|||||"),
    "weights": ("#7fc4a8", "\\\\\\\\\\"),
    "buffers": ("#d9b3d9", "xxxxx"),
    "control": ("white", "-----"),
}
_DIRECTIONS = {"payload_push_bytes": -1, "payload_pull_bytes": 1}


def write_traffic(traffic: pd.DataFrame, folder: Path, baselines: Sequence[str] = ()) -> None:
    """Draw a bar for each method: what a worker pushes to the left, what it pulls to the right.

    `traffic` has a row for each run, channel, verb and `payload_kind`, with means of bytes over the workers.
    `baselines` are bold.
    """
    finite = np.isfinite(traffic[list(_DIRECTIONS)].to_numpy()).all(axis=1)
    done = traffic[(traffic.status == "done") & finite]
    if done.empty:
        style.say(
            "No run that is done has sent anything: there is no traffic to show.", folder / TRAFFIC_FIGURE
        )
        return
    methods = list(done.method.unique())
    of_panels = [panel for _, panel in done.groupby(BLOCK, sort=False)]
    # The title, the legend and the axis take an inch.
    inches = (style.COLUMN_INCHES, 1.0 + 0.14 * len(methods))
    figure, all_axes = style.grid(len(of_panels), min(2, len(of_panels)), inches, sharey=True)
    for axes, panel in zip(all_axes, of_panels):
        _bars(axes, _megabytes(panel), methods)
        style.name_methods(axes, methods, baselines)
        axes.set_title(style.heading(panel), fontsize=7)
        axes.set_xlabel("payload of a worker, MB:  pushed  ←  |  →  pulled", fontsize=7)
        axes.xaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")
    shown = [kind for kind in _PAYLOADS if kind in set(done.payload_kind)]
    handles = [Patch(**style.filled(*_PAYLOADS[kind])) for kind in shown]
    style.legend(figure, handles, shown)
    note = (
        "means over the workers and the runs that are done, without preparations; "
        "right: push and pull together"
    )
    style.finish(figure, folder / TRAFFIC_FIGURE, note)


def _megabytes(panel: pd.DataFrame) -> pd.DataFrame:
    """The bytes of each method and kind of payload in 10^6: means over its runs, a column a direction."""
    of_runs = panel.groupby(["method", "repetition", "payload_kind"], sort=False)[list(_DIRECTIONS)].sum()
    runs = panel.groupby("method").repetition.nunique()
    sums = of_runs.groupby(["method", "payload_kind"], sort=False).sum()
    return sums.div(runs, axis=0, level="method") / 1e6


def _bars(axes: Axes, megabytes: pd.DataFrame, methods: Sequence[str]) -> None:
    places = range(len(methods))
    for column, sign in _DIRECTIONS.items():
        of_methods = megabytes[column].unstack().reindex(list(methods)).fillna(0.0)
        end = np.zeros(len(methods))
        for kind in [kind for kind in _PAYLOADS if kind in of_methods]:
            widths = sign * of_methods[kind].to_numpy()
            axes.barh(places, widths, left=end, height=0.72, **style.filled(*_PAYLOADS[kind]))
            end = end + widths
    axes.axvline(0, color="0.1", linewidth=0.8)
    axes.grid(False, axis="y")
    axes.use_sticky_edges = False
    axes.margins(x=0.04)
    totals = megabytes.sum(axis=1).groupby(level="method").sum()
    for place, method in enumerate(methods):
        style.write_beside_row(axes, 1.02, place, _short(totals[method]) if method in totals else "no run")


def _short(megabytes: float) -> str:
    return f"{megabytes:.3g}" if megabytes < 999.5 else f"{megabytes:,.0f}"


_LEAST_AXIS = 4.0  # ratio up to which the axis reaches at least


def write_performance_profile(
    task: LearningTask, to_target: pd.DataFrame, folder: Path, baselines: Collection[str] = ()
) -> None:
    """Draw a line for each method, a panel for each kind that has enough settings.

    `to_target` has a row for each setting, method, kind and target; a miss has infinitely many bytes.
    `baselines` are thick and black.
    """
    kinds = list(to_target.kind.unique()) if len(to_target) else []
    profiles = {kind: profile(to_target[to_target.kind == kind], task) for kind in kinds}
    profiles = {kind: found for kind, found in profiles.items() if len(found) >= FEWEST_SETTINGS}
    if not profiles:
        style.say(
            f"A performance profile needs {FEWEST_SETTINGS} settings in which the target is reached.",
            folder / PROFILE,
        )
        return
    titles = [f"{len(found)} settings, {style.KINDS.get(kind, kind)}" for kind, found in profiles.items()]
    figure, all_axes = layout(titles, list(to_target.method.unique()))
    for axes, found in zip(all_axes, profiles.values()):
        _lines(axes, found, baselines)
    note = (
        "bytes: payload pushed and pulled until the first evaluation that reaches the hardest target of the "
        "setting, median over the runs; a miss needs infinitely many; settings in which nobody reaches it, "
        "or the method has no run, are left out"
    )
    style.finish(figure, folder / PROFILE, note)


def profile(to_target: pd.DataFrame, task: LearningTask) -> pd.DataFrame:
    """The ratio of each method's bytes to the fewest in the same setting, a row; columns are methods.

    It is for the hardest target of a setting. It is infinite where the method misses that, and missing where
    the method has no run. Settings in which nobody reaches the target have no row.
    """
    targets = to_target.groupby(SETTING).target_score
    hardest = targets.transform("max" if task.higher_is_better else "min")
    rows = to_target[to_target.target_score == hardest].drop_duplicates([*SETTING, "method"])
    needed = rows.pivot(index=SETTING, columns="method", values="payload_bytes_median")
    needed = needed.reindex(columns=to_target.method.unique())
    reached = np.isfinite(needed.to_numpy()).any(axis=1)
    return ratios(needed[reached]).dropna(axis=1, how="all")


def _lines(axes: Axes, found: pd.DataFrame, baselines: Collection[str]) -> None:
    finite = found.to_numpy()[np.isfinite(found.to_numpy())]
    most = max(_LEAST_AXIS, finite.max()) * 1.1
    # Those with the largest areas under their lines; the axis is logarithmic.
    areas = np.log(most / found.clip(upper=most)).mean().sort_values(ascending=False, kind="stable")
    stand_out = with_baselines(found.columns, areas.index, baselines)
    ends = []
    for method in found:
        reached = np.sort(found[method][np.isfinite(found[method])])
        percent = 100 * np.arange(len(reached) + 1) / found[method].count()
        look = line_look(str(method), stand_out, baselines)
        axes.step([1, *reached, most], [*percent, percent[-1]], where="post", **look)
        ends.append(end_of(look, most, percent[-1], baselines))
    axes.set_xlim(1, most)
    axes.set_ylim(-2, 102)
    style.ticks(axes, log=True)
    axes.set_xlabel("bytes to the target over the fewest of any method", fontsize=7)
    axes.set_ylabel("share of settings, %", fontsize=7)
    write_beside(axes, ends)
