"""The map: which method is the fastest for a network on so many workers over a link, simulated without data.

Methods that exchange every many steps are the fastest nearly everywhere, whatever they do to the accuracy. So
there is a line of panels for those that exchange at every step, and one for all.
"""

from pathlib import Path
from typing import Literal

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from thinwire.report.figures import style
from thinwire.report.figures.labels import shortened
from thinwire.report.figures.looks import look
from thinwire.report.figures.style import PatchLook, finish, legend
from thinwire.report.plan_table import Known, fastest
from thinwire.report.report_files import fixed

MAP = "map"
# The committed grid; other suites have other batches.
SUITES = ("times/cifar10", "times/imagenet_mini", "times/text")
ACCELERATOR, WORKERS_PER_NODE = "a100_bf16", 8
# On an H200, steps of the fastest methods over those of SSGD took up to so many times as long as described
# (benchmarks/method_steps.py).
LEAST_GAIN = 1.4
_SELDOM = ("local_sgd", "diloco", "diloco_streaming", "sparse_loco", "des_loc", "daso", "multi_step_delay")
LINES: tuple[tuple[str, tuple[str, ...]], ...] = (("exchange at\nevery step", _SELDOM), ("all methods", ()))
_WIDTH_INCHES, _CELL_INCHES = 2 * style.COLUMN_INCHES, 0.19  # its height
_AROUND_INCHES = 0.45  # of a line of panels: titles and rates
_LEAST_INCHES = 1.7  # of a line of panels: its name
_GAP_INCHES = 0.2  # between panels
_POINTS = 6.0
_NEUTRAL, _HATCH, _EDGE, _INSET = "0.9", "////", 0.9, 0.06
_NO_GAIN = f"no gain of {LEAST_GAIN:g}"
_STATES: dict[str, PatchLook] = {
    "accuracy of SSGD": {"facecolor": "0.4"},
    "changed in the study": {"facecolor": "0.4", "hatch": _HATCH, "edgecolor": "white"},
    "accuracy unknown": {"facecolor": "white", "edgecolor": "0.4"},
    _NO_GAIN: {"facecolor": _NEUTRAL},
}


def shown(rows: pd.DataFrame, latency: Literal["min", "max"] = "min") -> pd.DataFrame:
    """Of all times, those of the map: each rate with the least of its latencies, or the largest (`max`)."""
    own = rows[
        rows.suite.isin(SUITES)
        & (rows.accelerator == ACCELERATOR)
        & (rows.workers == WORKERS_PER_NODE * rows.nodes)
    ]
    chosen = own.groupby(["suite", "rate_gbit_per_second"]).latency_seconds.transform(latency)
    return own[own.latency_seconds == chosen]


def write_map(rows: pd.DataFrame, folder: Path) -> None:
    """Draw a panel for each network of all times, with a cell for each number of workers and rate."""
    style.use()
    own = shown(rows)
    networks = list(own.model.unique())
    rates = sorted(own.rate_gbit_per_second.unique())
    workers = sorted(own.workers.unique())
    columns = len(networks)
    width = _WIDTH_INCHES / columns
    height = max(_CELL_INCHES * len(workers) + _AROUND_INCHES, _LEAST_INCHES)
    figure, all_axes = style.grid(len(LINES) * columns, columns, (width, height), sharex=True, sharey=True)
    told: list[str] = []
    states: set[str] = set()
    for first, (title, left_out) in zip(range(0, len(all_axes), columns), LINES):
        best = fastest(own[~own.method.isin(left_out)])
        for axes, network in zip(all_axes[first:], networks):
            of_network = best[best.model == network]
            told += _panel(axes, of_network, rates, workers)
            states |= set(map(_state, of_network.gain, of_network.accuracy))
        all_axes[first].set_ylabel(f"{title}\n\nworkers", fontsize=_POINTS + 1)
    titles = shortened(networks, width - _GAP_INCHES, _POINTS + 1)
    for axes, title in zip(all_axes, titles.values()):
        axes.set_title(title, fontsize=_POINTS + 1)
    figure.supxlabel("Gbit/s of a node's link", fontsize=_POINTS + 1)
    methods = list(dict.fromkeys(told))
    handles = [Patch(facecolor=look(method).colour) for method in methods]
    occurring = [state for state in _STATES if state in states]
    legend(figure, [*handles, *(Patch(**_STATES[state]) for state in occurring)], [*methods, *occurring])
    note = (
        f"simulated without data on {ACCELERATOR}, nodes of {WORKERS_PER_NODE}; number: step of the fastest "
        f"SSGD over that of the method; a gain below {LEAST_GAIN:g} counts as none"
    )
    if fastest(own, [Known.SAME]).gain.max() < LEAST_GAIN:
        note += "; methods that compute what SSGD computes have none anywhere"
    finish(figure, folder / MAP, note)


def _panel(axes: Axes, best: pd.DataFrame, rates: list[float], workers: list[int]) -> list[str]:
    """Draw the cells of a panel; gives the methods that are told by their colours."""
    told: list[str] = []
    for row in best.to_dict("records"):
        corner = rates.index(row["rate_gbit_per_second"]), workers.index(row["workers"])
        if row["gain"] < LEAST_GAIN:
            axes.add_patch(Rectangle(corner, 1, 1, facecolor=_NEUTRAL, edgecolor="white"))
        else:
            _cell(axes, corner, str(row["method"]), float(row["gain"]), row["accuracy"])
            told.append(str(row["method"]))
    axes.set_xlim(0, len(rates))
    axes.set_ylim(0, len(workers))
    axes.set_xticks([place + 0.5 for place in range(len(rates))], [f"{rate:,g}" for rate in rates])
    axes.set_yticks([place + 0.5 for place in range(len(workers))], [f"{number:,}" for number in workers])
    axes.tick_params(labelsize=_POINTS, pad=1)
    axes.tick_params(axis="x", rotation=45)
    axes.grid(False)
    return told


def _state(gain: float, accuracy: Known) -> str:
    """What the legend says about the look of this cell."""
    if gain < LEAST_GAIN:
        return _NO_GAIN
    of_accuracy = {Known.SAME: "accuracy of SSGD", Known.CHANGED: "changed in the study"}
    return of_accuracy.get(accuracy, "accuracy unknown")


def _cell(axes: Axes, corner: tuple[int, int], method: str, gain: float, accuracy: Known) -> None:
    """Draw the cell of a method that is faster than SSGD."""
    x, y = corner
    colour, box = look(method).colour, None
    inset = 0.0
    drawn: PatchLook = {"facecolor": colour, "edgecolor": "white"}
    if accuracy == Known.CHANGED:
        drawn["hatch"], box = _HATCH, {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    elif accuracy != Known.SAME:
        inset, drawn = _INSET, {"facecolor": "white", "edgecolor": colour, "linewidth": _EDGE, "zorder": 2}
    side = 1 - 2 * inset
    axes.add_patch(Rectangle((x + inset, y + inset), side, side, **drawn))
    axes.text(
        x + 0.5,
        y + 0.48,
        fixed(gain, 1 if gain < 9.95 else 0),
        ha="center",
        va="center",
        fontsize=_POINTS,
        color="white" if accuracy == Known.SAME else "black",
        bbox=box,
    )
