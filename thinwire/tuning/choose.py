"""The rule by which a tuning chooses: the best mean accuracy, then the fewest bytes, then the first trial."""

import math

import pandas as pd


def trials(runs: pd.DataFrame) -> pd.DataFrame:
    """One row for each method and trial, in their order.

    Columns: `method`, `trial`, `ended` (are all its runs done?), and the means over its runs,
    `accuracy_percent` and `payload_bytes`. A trial has neither if one of its runs diverged, failed or was
    skipped.
    """
    grouped = runs.groupby(["method", "trial"], sort=False)
    table = grouped[["accuracy_percent", "payload_bytes"]].mean()
    table["ended"] = grouped.status.agg(lambda status: bool((status == "done").all()))
    # Rounded, because the order in which floats are added must not break a tie.
    table = table.round(6)
    table.loc[~table.ended, ["accuracy_percent", "payload_bytes"]] = math.nan
    return table.reset_index()


def best(of_method: pd.DataFrame) -> pd.Series:
    """The best of the rows of one method in `trials`; the first one if no trial has ended."""
    ordered = of_method.sort_values(
        ["accuracy_percent", "payload_bytes", "trial"], ascending=[False, True, True], na_position="last"
    )
    return ordered.iloc[0]


def best_so_far(table: pd.DataFrame) -> pd.DataFrame:
    """`trials` with the column `best_percent`: the highest accuracy of this trial and of those before it."""
    accuracy = table.accuracy_percent.fillna(float("-inf"))
    best_percent = accuracy.groupby(table.method, sort=False).cummax()
    return table.assign(best_percent=best_percent.where(best_percent > float("-inf")))
