"""Quantities of runs, such as savings and chance, and the summary of each setting and method."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pandas as pd

from thinwire.base.learning import LearningTask
from thinwire.report.report_files import with_table_digits

SETTING = ["dataset", "model", "workers", "nodes"]
# What stands in one block of a table: runs that were made in different ways are not compared.
BLOCK = [*SETTING, "kind"]
# The payload of a run together with that of its preparation, which several runs may share.
WITH_PREPARATION = "total with prepared"
# The same, where each of the runs that use one preparation has its share of it.
WITH_SHARE = "total with share of prepared"
# The bytes of the one worker, in the one direction, that carries most of them.
BUSIEST_LINK = "busiest link"
# What is compared, each under the name that its columns begin with.
TRAFFIC = ("push", "pull", "total", "wire", BUSIEST_LINK, "between nodes", WITH_PREPARATION)


def bytes_column(name: str) -> str:
    """The column with the mean bytes of this traffic."""
    return f"{name.replace(' ', '_')}_bytes"


def reduction_column(name: str) -> str:
    """The column with the reduction of this traffic in percent: 0 is the baseline's bytes, 100 is none."""
    return f"{name.replace(' ', '_')}_reduction_percent"


def with_reductions(table: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Add the `reduction_column` of all `TRAFFIC` to a table of blocks and methods with its `bytes_column`.

    A reduction is missing where the baseline is missing or sends nothing. Row numbers are from 0.
    """
    reductions = {}
    for name in TRAFFIC:
        own, reference = table[bytes_column(name)], of_baseline(table, baseline, bytes_column(name))
        reductions[reduction_column(name)] = 100 * (1 - own / reference.where(reference > 0))
    return table.assign(**reductions)


def runs_to_break_even(table: pd.DataFrame, baseline: str) -> pd.Series:
    """For each row, how many runs must share one preparation, so that they send no more than the baseline.

    Over k runs, each sends its own payload and a k-th of the preparation. Missing where there is no
    preparation, or where a run alone does not send less than one of the baseline. The table is that of
    `with_reductions` with a column `preparation_bytes`.
    """
    total = bytes_column("total")
    saved = of_baseline(table, baseline, total) - table[total]
    return table.preparation_bytes / saved.where(saved > 0)


def of_baseline(table: pd.DataFrame, baseline: str, column: str) -> pd.Series:
    """For each row, the value of a column in the baseline's row of the same block, if there is one."""
    values = table[table.method == baseline].set_index(BLOCK)[column]
    blocks = table[BLOCK].itertuples(index=False, name=None)
    return pd.Series([values.get(block) for block in blocks], dtype=float)


def with_megabytes(curves: pd.DataFrame) -> pd.DataFrame:
    """Add `megabytes`: what a worker has pushed and pulled so far, with its preparation, in 10^6 bytes."""
    pushed_and_pulled = curves.payload_push_bytes + curves.payload_pull_bytes
    return curves.assign(megabytes=(pushed_and_pulled + curves.preparation_payload_bytes) / 1e6)


def preparation_note(curves: pd.DataFrame) -> list[str]:
    """Phrases that say which methods have a preparation."""
    prepared = dict.fromkeys(curves.method[curves.preparation_payload_bytes > 0])
    said = f"the preparation of {', '.join(prepared)} is counted in bytes, but not in epochs"
    return [said] if prepared else []


def busiest_link_bytes(runs: pd.DataFrame) -> pd.Series:
    """For each run, the most bytes that one worker sent, or that one worker received."""
    return runs[["wire_sent_max_bytes", "wire_received_max_bytes"]].max(axis=1, skipna=False)


# Of the accuracy of guessing, over different sets of images. Guessing exceeds them once in 700 runs.
_STANDARD_DEVIATIONS = 3.0


def at_chance_level(runs: pd.DataFrame, task: LearningTask) -> pd.Series:
    """For each run: 1.0 if its score is one that guessing reaches, else 0.0; missing if this is unknown.

    A guess among C classes is right with probability p = 1/C. Its accuracy on n images has the mean p and the
    standard deviation sqrt(p (1-p) / n), by the binomial distribution. A guess among C characters costs
    log2 C bits.

    Args:
        runs: with columns `classes` and `score`, and `evaluated_images` if images are classified.
        task: what they learn.
    """
    if not task.higher_is_better:
        limit = np.log2(runs.classes)
        return (runs.score >= limit).astype(float).where(runs.score.notna() & limit.notna())
    chance = 1 / runs.classes
    deviation = (chance * (1 - chance) / runs.evaluated_images) ** 0.5
    highest_percent = 100 * (chance + _STANDARD_DEVIATIONS * deviation)
    at_chance = (runs.score <= highest_percent).astype(float)
    return at_chance.where(runs.score.notna() & highest_percent.notna())


def untrained(runs: pd.DataFrame, baseline: str, task: LearningTask) -> set[tuple[object, ...]]:
    """The blocks, as values of `BLOCK`, in which every run of the baseline that is done is at chance level.

    Runs that only measure times may be so short. Differences in their scores say nothing about a method.
    """
    done = runs[(runs.method == baseline) & (runs.status == "done")]
    at_chance = (at_chance_level(done, task) == 1).groupby([done[name] for name in BLOCK]).all()
    return set(at_chance.index[at_chance])


# The target of tables with one target.
TARGET_OF_BASELINE = 0.99
# The targets of tables with several: rankings may differ between them.
SHARES = (0.95, 0.98, TARGET_OF_BASELINE)


def reaching(curves: pd.DataFrame, target: float, task: LearningTask) -> pd.DataFrame:
    """The first evaluation of each run whose score is the target or better, with the repetition as index.

    A run that misses the target has no row. The curves are of one method in one place.
    """
    reached = curves[task.sign * curves.score >= task.sign * target]
    return reached.sort_values("step").drop_duplicates("repetition").set_index("repetition")


def faster_ranges(rates: Sequence[float], speed_ups: Sequence[float]) -> list[tuple[float, float]]:
    """The ranges of rates in which the speed-up is above 1, in ascending order.

    Where the speed-up passes 1, the *break-even* rate is interpolated on logarithmic axes. The lower end is 0
    if the method is faster at the lowest rate, and the upper end is infinite if it is faster at the highest.

    Args:
        rates: in ascending order.
        speed_ups: at these rates, above 0.
    """
    faster = [speed_up > 1 for speed_up in speed_ups]
    passed = [place for place, (one, two) in enumerate(pairwise(faster)) if one != two]
    ends = [_crossing(rates, speed_ups, place) for place in passed]
    if faster[0]:
        ends.insert(0, 0.0)
    if faster[-1]:
        ends.append(math.inf)
    return [*zip(ends[::2], ends[1::2])]


def _crossing(rates: Sequence[float], speed_ups: Sequence[float], place: int) -> float:
    """The rate between this one and the next at which the speed-up is 1."""
    (low, high), (before, after) = rates[place : place + 2], map(math.log, speed_ups[place : place + 2])
    return float(low * (high / low) ** (before / (before - after)))


def has_partition(rows: pd.DataFrame) -> bool:
    """Has a worker of one of these rows training inputs of its own?"""
    return "partition" in rows and bool(rows["partition"].notna().any())


def partition_of(rows: pd.DataFrame) -> dict[str, object]:
    """The columns with the partition of rows of one cell, and its mean; missing if all runs failed before."""
    return {
        "partition": next(iter(rows["partition"].dropna()), None),
        "partition_divergence": rows["partition_divergence"].mean(),
    }


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
