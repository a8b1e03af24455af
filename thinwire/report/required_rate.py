"""The table and the figure of the rates that DASO needs: `required_rate`."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.ticker import FuncFormatter, NullLocator

from thinwire.report import fitted_text, method_looks, style, table_file
from thinwire.report.panels import HOLLOW, finish, legend, unique
from thinwire.report.result_names import REQUIRED_RATE
from thinwire.statistics.rounding import fixed

_INCHES = (style.COLUMN_INCHES, 2.4)
_GREYS = ("0.1", "0.35", "0.6")  # the lines are all of DASO, beside several baselines


def sentences(rows: pd.DataFrame) -> Iterable[str]:
    """What may be said about each row."""
    for row in rows.to_dict("records"):
        where = f"{row['nodes']} nodes against {row['baseline']}"
        share, rate = f"{row['saved_percent']:g} %", row["required_gigabytes_per_second"]
        offered = f"{row['offered_gigabytes_per_second']:g} GB/s"
        if math.isnan(rate):
            yield f"{where}: in our simulation, no rate up to {offered} saves {share} of the time."
        else:
            bound = row["required_with_free_exchanges_gigabytes_per_second"]
            yield (
                f"{where}: for {share}, our simulation needs at most {fixed(rate, 2)} GB/s a node, or "
                f"{fixed(bound, 2)} if exchanges in cycling epochs took no time; {row['cluster']} offers "
                f"{offered}."
            )


def write(rows: pd.DataFrame, results: Path) -> list[Path]:
    """Write the table and the figure, with the same bytes every time; returns the paths of both.

    Args:
        rows: as `required_rates` gives them.
        results: the folder of results.
    """
    table = results / "tables" / f"{REQUIRED_RATE}.csv"
    table_file.write(rows, table)
    stem = results / "figures" / REQUIRED_RATE
    _draw(rows, stem)
    return [table, stem.with_suffix(".pdf")]


def _draw(rows: pd.DataFrame, stem: Path) -> None:
    """Lines over the number of nodes, one for each baseline, below what the cluster offers."""
    style.use()
    figure, axes = plt.subplots(figsize=_INCHES, layout="constrained")
    for place, baseline in enumerate(unique(rows.baseline)):
        own = rows[rows.baseline == baseline]
        colour = _GREYS[place % len(_GREYS)]
        look: dict[str, Any] = {"marker": method_looks.look(baseline).marker, "color": colour}
        axes.plot(own.nodes, own.required_gigabytes_per_second, label=f"against {baseline}", **look, **HOLLOW)
        bound = own.required_with_free_exchanges_gigabytes_per_second
        axes.plot(own.nodes, bound, linestyle=":", linewidth=0.8, color=colour)
    offered = float(rows.offered_gigabytes_per_second.iloc[0])
    (cluster,) = unique(rows.cluster)
    axes.axhline(offered, color="0.4", linestyle="--")
    axes.annotate(
        f"{fitted_text.shortened([cluster], 1.6, 7)[cluster]}: {offered:g} GB/s",
        (0.02, offered),
        xycoords=("axes fraction", "data"),
        xytext=(0, -2),
        textcoords="offset points",
        va="top",
        fontsize=7,
    )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(unique(rows.nodes), [str(number) for number in unique(rows.nodes)])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel("nodes")
    axes.set_ylabel("GB/s of a node's link")
    legend(figure, *axes.get_legend_handles_labels())
    share, profile = f"{rows.saved_percent.iloc[0]:g} %", rows.profile.iloc[0]
    note = f"simulated, computing as {profile}; the highest rate at which DASO saves {share}"
    finish(figure, stem, f"{note}; dotted: if its exchanges in cycling epochs took no time")
