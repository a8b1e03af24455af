"""The figures of simulated times, and which of them a suite has."""

import math
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from thinwire.report import (
    bandwidth_figure,
    speed_up_figure,
    speed_up_over_workers_figure,
    step_breakdown_figure,
    style,
)
from thinwire.report.times import headline


def write(
    table: pd.DataFrame,
    folder: Path,
    baselines: Sequence[str],
    over_workers: bool = False,
    over_rates: bool = False,
) -> None:
    """Write the figures.

    Args:
        table: of times.
        folder: for the figures.
        baselines: labels of methods that are drawn thick, or named in bold.
        over_workers: draw the times over the number of workers, even if there is only one number?
        over_rates: draw them over the rate of the links, even if each cluster has only its own?
    """
    style.use()
    table = table.replace([math.inf, -math.inf], math.nan)
    first = headline(table)
    step_breakdown_figure.write(first[first.kind == "simulated"], folder, baselines)
    speed_up_figure.write(first, folder, baselines)
    simulated = table[table.kind == "simulated"]
    if over_workers or simulated.workers.nunique() > 1:
        speed_up_over_workers_figure.write(simulated[simulated.own_rate], folder, baselines)
    if over_rates or not simulated.own_rate.all():
        bandwidth_figure.write(simulated[simulated.workers.isin(first.workers)], folder, baselines)
