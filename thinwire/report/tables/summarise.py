"""One row for each setting and method: score, traffic, time, and the savings against the baseline."""

import math
from collections.abc import Sequence

import pandas as pd

from thinwire.base.learning import LearningTask
from thinwire.report.report_files import with_table_digits
from thinwire.report.rows.quantities import (
    BLOCK,
    BUSIEST_LINK,
    SETTING,
    WITH_PREPARATION,
    WITH_SHARE,
    at_chance_level,
    busiest_link_bytes,
    bytes_column,
    of_baseline,
    with_reductions,
)
from thinwire.report.tables.about import has_partition, partition_of

STATUSES = ("done", "diverged", "failed", "skipped")
# The column of the collected runs with the bytes of each traffic.
_COLLECTED = {
    "push": "payload_push_bytes",
    "pull": "payload_pull_bytes",
    "total": "payload_total_bytes",
    "wire": "wire_sent_bytes",
    BUSIEST_LINK: "wire_max_bytes",
    "between nodes": "between_nodes_bytes",
}
# What methods are sorted by, so that nobody gains a place by sending bytes beforehand.
_SENT = bytes_column(WITH_PREPARATION)
# The metric of methods that jump over epochs: how many epochs the trained ones stand for.
_VIRTUAL = "method/virtual_epochs"


def summarise(runs: pd.DataFrame, baselines: Sequence[str], task: LearningTask) -> pd.DataFrame:
    """One row for each setting, kind and method, over its runs that are done.

    Payload and wire bytes are means over the workers; `wire` is what a worker sends. `busiest link` is the
    most that one worker sends, or receives. The bytes of a method's preparation have columns of their own,
    and one reduction of their own (see `savings`). In each block the baselines come first, and then the
    method that sends least, with its preparation.

    Args:
        runs: one row for each run.
        baselines: labels; reductions and speed-ups refer to the first.
        task: what the runs learn.
    """
    if "train_seconds" not in runs:  # no run says anything about time
        runs = runs.assign(train_seconds=math.nan)
    prepared = runs.preparation_payload_push_bytes + runs.preparation_payload_pull_bytes
    runs = runs.assign(
        payload_total_bytes=runs.payload_push_bytes + runs.payload_pull_bytes,
        wire_max_bytes=busiest_link_bytes(runs),
        prepared_bytes=prepared,
        at_chance_level=at_chance_level(runs, task),
    )
    runs = runs.assign(preparation_runs=_runs_that_share(runs))
    with_prepared = runs.payload_total_bytes + runs.prepared_bytes.fillna(0)
    with_share = runs.payload_total_bytes + (runs.prepared_bytes / runs.preparation_runs).fillna(0)
    divided = has_partition(runs)
    groups = runs.groupby([*SETTING, "method", "kind"], sort=False)
    rows = []
    for names, group in groups:
        done = group[group.status == "done"]
        counts = group.status.value_counts()
        rows.append(
            {
                **dict(zip([*SETTING, "method", "kind"], names)),
                "epochs": group.epochs.iloc[0],
                "virtual_epochs": done[_VIRTUAL].mean() if _VIRTUAL in runs else math.nan,
                **(partition_of(group) if divided else {}),
                **{status: int(counts.get(status, 0)) for status in STATUSES},
                "at_chance_level": done.at_chance_level.sum(skipna=False),
                "score_mean": done.score.mean(),
                "score_sd": done.score.std(ddof=1),
                **{bytes_column(name): done[c].mean() for name, c in _COLLECTED.items()},
                "preparation_bytes": group.prepared_bytes.mean(),
                bytes_column(WITH_PREPARATION): with_prepared[done.index].mean(),
                "preparation_runs_min": done.preparation_runs.min(),
                "preparation_runs_max": done.preparation_runs.max(),
                bytes_column(WITH_SHARE): with_share[done.index].mean(),
                "preparation_seconds": group.preparation_seconds.mean(),
                "train_seconds": done.train_seconds.mean(),
                "train_seconds_sd": done.train_seconds.std(ddof=1),
                "no_time_because": "; ".join(dict.fromkeys(done.no_time_because.dropna())),
                "reason": "; ".join(dict.fromkeys(group.reason.dropna())),
            }
        )
    table = with_reductions(pd.DataFrame(rows), baselines[0])
    table["train_speed_up"] = of_baseline(table, baselines[0], "train_seconds") / table.train_seconds
    return _in_order(with_table_digits(table), baselines)


def _runs_that_share(runs: pd.DataFrame) -> pd.Series:
    """For each run, how many runs that are done use the same preparation; missing if the run uses none.

    Runs that are not done have no result that could bear a share. So the shares add up to the preparation.
    """
    done = runs[runs.status == "done"]
    return runs.prepared_from.map(done.prepared_from.value_counts())


def _in_order(table: pd.DataFrame, baselines: Sequence[str]) -> pd.DataFrame:
    """Blocks in the order of their names; in each the baselines, and then the method that sends least."""
    first = {label: place for place, label in enumerate(baselines)}
    place = table.method.map(first).fillna(len(first))
    table = table.assign(place=place).sort_values([*BLOCK, "place", _SENT], kind="stable")
    return table.drop(columns="place").reset_index(drop=True)
