"""The rows of the leader table: what each method sends, learns and takes."""

import math

import pandas as pd

CELL = ["dataset", "model", "workers", "nodes"]
ROW = [*CELL, "method", "kind"]
# What the page shows of `results/tables/SUITE/summary.csv`, under shorter names.
SUMMARY = {
    "total_bytes": "payload_bytes",
    "preparation_bytes": "prepared_bytes",
    "total_reduction_percent": "saved_percent",
    "total_with_prepared_reduction_percent": "saved_with_prepared_percent",
    "accuracy_mean_percent": "accuracy_percent",
    "accuracy_sd_percent": "accuracy_sd_percent",
    "done": "done",
    "at_chance_level": "at_chance_level",
    "epochs": "epochs",
    "virtual_epochs": "virtual_epochs",
}
_NOT_DONE = ("diverged", "timeout", "failed", "skipped")
SUMMARY_COLUMNS = [*ROW, *SUMMARY, *_NOT_DONE, "reason", "train_seconds", "train_speed_up"]
COMPARISON_COLUMNS = [
    *ROW,
    "against",
    "n",
    "difference_mean_points",
    "difference_low_points",
    "difference_high_points",
    "margin_points",
    "detectable_points",
    "verdict",
    "words",
]
TO_TARGET_COLUMNS = [*ROW, "target_accuracy_percent", "epochs_median", "train_seconds_median"]
_PLACE = ["cluster", "profile", "baseline", "speed_up", "target_accuracy_percent", "seconds_to_target"]
TIMES_COLUMNS = [*ROW, *_PLACE, "own_rate"]


def leaders(
    summary: pd.DataFrame, comparisons: pd.DataFrame | None, to_target: pd.DataFrame | None
) -> pd.DataFrame:
    """One row for each cell, method and kind.

    Args:
        summary: the table of the suite.
        comparisons: with the words of the verdicts; None if there are none.
        to_target: with the epochs to the target; None if there is no such table.
    """
    others = [_others(row) for row in summary[list(_NOT_DONE)].itertuples(index=False)]
    rows = summary[ROW].assign(
        **{short: summary[name] for name, short in SUMMARY.items()},
        not_done=pd.Series(others, index=summary.index, dtype=object),
        reason=summary.reason,
    )
    if comparisons is not None:
        rows = rows.merge(comparisons[[*ROW, "verdict", "words"]], on=ROW, how="left")
    if to_target is not None:
        rows = rows.merge(_highest(to_target)[[*ROW, "epochs_median"]], on=ROW, how="left")
    return rows


def places(
    times: pd.DataFrame | None, summary: pd.DataFrame, to_target: pd.DataFrame | None, baseline: str
) -> pd.DataFrame:
    """One row for each method and place that has a time, at the rate of the cluster itself.

    A suite that is not simulated has no table of times. Then its own times count, and `baseline` is the only
    one that they are compared with.
    """
    if times is not None:
        return times[times.own_rate.astype(bool)][[*ROW, *_PLACE]]
    timed = summary[summary.train_seconds.notna()]
    rows = timed[ROW].assign(cluster="", profile="", baseline=baseline, speed_up=timed.train_speed_up)
    if to_target is None:
        return rows.assign(target_accuracy_percent=math.nan, seconds_to_target=math.nan)
    reached = _highest(to_target).rename(columns={"train_seconds_median": "seconds_to_target"})
    return rows.merge(reached[[*ROW, "target_accuracy_percent", "seconds_to_target"]], on=ROW, how="left")


def _highest(to_target: pd.DataFrame) -> pd.DataFrame:
    """Of several targets the highest, which is that of the table of times, too."""
    return to_target.sort_values("target_accuracy_percent", kind="stable").drop_duplicates(ROW, keep="last")


def _others(counts: tuple[int, ...]) -> str:
    """How many runs are not done, by their status: `1 diverged, 2 failed`."""
    return ", ".join(f"{count} {status}" for status, count in zip(_NOT_DONE, counts) if count)
