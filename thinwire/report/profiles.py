"""The table `profiles.csv`: in how many cells a method is within a factor of the cheapest to a target."""

from pathlib import Path

import pandas as pd

from thinwire.report import table_file
from thinwire.report.savings import CELL
from thinwire.report.target_accuracy import SHARES
from thinwire.statistics.performance_profile import profile, ratios, score

FACTORS = (1.0, 1.5, 2.0, 3.0, 4.0)
METRICS = {"payload_bytes": "payload_bytes_median", "train_seconds": "train_seconds_median"}
COLUMNS = (
    "kind",
    "metric",
    "target_of_baseline_percent",
    "method",
    "cells",
    *(f"within_{factor:g}" for factor in FACTORS),
    "score",
)


def profiles(to_target: pd.DataFrame) -> pd.DataFrame:
    """One row for each kind of run, metric, target and method, over the cells in which the method has runs.

    Args:
        to_target: the table of that name.
    """
    # Targets stand in one order in every cell; in percent of accuracy they differ.
    place = to_target.groupby([*CELL, "kind", "method"], sort=False).cumcount()
    percent = place.map({i: 100 * share for i, share in enumerate(SHARES)})
    table = to_target.assign(percent=percent)
    parts = [
        _of_methods(here, column).assign(kind=kind, metric=metric, target_of_baseline_percent=percent)
        for kind, of_kind in table.groupby("kind", sort=False)
        for percent, here in of_kind.groupby("percent", sort=False)
        for metric, column in METRICS.items()
    ]
    if not parts:
        return pd.DataFrame(columns=list(COLUMNS))
    return table_file.with_table_digits(pd.concat(parts))[list(COLUMNS)]


def _of_methods(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """A row for each method that has a value in this column in a cell."""
    costs = table.pivot(index=CELL, columns="method", values=column)[list(table.method.unique())]
    found = ratios(costs.dropna(how="all").dropna(axis=1, how="all"))
    within = profile(found, FACTORS).T.set_axis([f"within_{factor:g}" for factor in FACTORS], axis=1)
    return within.assign(cells=found.count(), score=score(found)).rename_axis("method").reset_index()


def write(table: pd.DataFrame, folder: Path) -> None:
    """Write `profiles.csv`."""
    table_file.write(table, folder / "profiles.csv")
