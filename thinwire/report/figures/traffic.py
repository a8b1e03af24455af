"""The figure `traffic`: what each method pushes and pulls, by kind of payload."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from thinwire.report.figures import style
from thinwire.report.figures.score_points import heading
from thinwire.report.figures.style import finish, grid, legend, name_methods, say
from thinwire.report.report_files import TRAFFIC_FIGURE
from thinwire.report.rows.quantities import BLOCK

# With looks that differ in grey, too.
_KINDS = {
    "values": ("#0173b2", ""),
    "indices": ("#f0b050", "/////"),
    "scales": ("0.2", ""),
    "sizes": ("0.75", "....."),
    "weights": ("#7fc4a8", "\\\\\\\\\\"),
    "buffers": ("#d9b3d9", "xxxxx"),
    "control": ("white", "-----"),
}
_DIRECTIONS = {"payload_push_bytes": -1, "payload_pull_bytes": 1}


def write(traffic: pd.DataFrame, folder: Path, baselines: Sequence[str] = ()) -> None:
    """Draw a bar for each method: what a worker pushes to the left, what it pulls to the right.

    Args:
        traffic: one row for each run, channel, verb and `payload_kind`; bytes are means over the workers.
        folder: for the figure.
        baselines: labels of methods that are bold.
    """
    finite = np.isfinite(traffic[list(_DIRECTIONS)].to_numpy()).all(axis=1)
    done = traffic[(traffic.status == "done") & finite]
    if done.empty:
        say("No run that is done has sent anything: there is no traffic to show.", folder / TRAFFIC_FIGURE)
        return
    methods = list(done.method.unique())
    of_panels = [panel for _, panel in done.groupby(BLOCK, sort=False)]
    # The title, the legend and the axis take an inch.
    inches = (style.COLUMN_INCHES, 1.0 + 0.14 * len(methods))
    figure, all_axes = grid(len(of_panels), min(2, len(of_panels)), inches, sharey=True)
    for axes, panel in zip(all_axes, of_panels):
        _bars(axes, _megabytes(panel), methods)
        name_methods(axes, methods, baselines)
        axes.set_title(heading(panel), fontsize=7)
        axes.set_xlabel("payload of a worker, MB:  pushed  ←  |  →  pulled", fontsize=7)
        axes.xaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")
    shown = [kind for kind in _KINDS if kind in set(done.payload_kind)]
    handles = [Patch(**_look(kind)) for kind in shown]
    legend(figure, handles, shown)
    note = (
        "means over the workers and the runs that are done, without preparations; "
        "right: push and pull together"
    )
    finish(figure, folder / TRAFFIC_FIGURE, note)


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
        for kind in [kind for kind in _KINDS if kind in of_methods]:
            widths = sign * of_methods[kind].to_numpy()
            axes.barh(places, widths, left=end, height=0.72, **_look(kind))
            end = end + widths
    axes.axvline(0, color="0.1", linewidth=0.8)
    axes.grid(False, axis="y")
    axes.use_sticky_edges = False
    axes.margins(x=0.04)
    totals = megabytes.sum(axis=1).groupby(level="method").sum()
    for place, method in enumerate(methods):
        text = f"{totals[method]:.3g}" if method in totals else "no run"
        where = axes.get_yaxis_transform()
        axes.text(1.02, place, text, transform=where, va="center", fontsize=6, color="0.25")


def _look(kind: str) -> dict[str, Any]:
    colour, hatch = _KINDS[kind]
    return {"facecolor": colour, "hatch": hatch, "edgecolor": "0.2", "linewidth": 0.3}
