"""Times of steps, measured, emulated or simulated, and the ladder of HSGD."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from thinwire.base.files import write_text
from thinwire.base.learning import LearningTask
from thinwire.report import report_files
from thinwire.report.rows.quantities import BLOCK, SETTING, TARGET_OF_BASELINE
from thinwire.report.rows.to_target import StepsToTarget
from thinwire.report.tables import numbers
from thinwire.simulation import simulated_file

# What rows that are compared with each other have in common.
PLACE = [*SETTING, "cluster", "rate_gbit_per_second", "own_rate", "kind"]
# What times.csv has; figures show more.
COLUMNS = [
    *(*PLACE, "method", "step_seconds", "exposed_seconds", "hidden_seconds", "baseline", "speed_up"),
    *("target_score", "steps_to_target", "seconds_to_target"),
]
_NOTES = (
    "How: simulated rows follow from a schedule, computing on {computing}, and a described cluster. Measured "
    "and emulated rows are geometric means of runs with a process for each worker. Exposed: communication, "
    "servers included, that a worker waits for in a step. "
    "Hidden: the time of a step in which a link between nodes sends and no worker waits for that. Speed-up: "
    "over the faster of the baselines ({baselines}) in the same place. To the target: the target is "
    "{target}. The seconds are those of a step, times the steps until the first evaluation of a learning run "
    "that reaches it (median over the repetitions). They are empty where no run has as many workers. "
    "Simulated times are predictions: docs/simulation.md has their limits."
)


def times(
    simulated: pd.DataFrame | None,
    runs: pd.DataFrame,
    baselines: Sequence[str],
    to_target: StepsToTarget,
) -> pd.DataFrame:
    """One row for each method and place, with all columns of the simulated rows.

    Args:
        simulated: the rows of `thinwire simulate`; None if the suite was not simulated.
        runs: one row for each run; those without times are left out.
        baselines: labels of the methods of which the faster is compared with.
        to_target: gives the target and the steps to it, see `steps_to_target`.
    """
    if simulated is None:
        simulated = pd.DataFrame(columns=list(simulated_file.COLUMNS))
    exposed = simulated.communication_seconds + simulated.server_seconds
    table = simulated.assign(exposed_seconds=exposed).drop(columns=["baseline", "speed_up"])
    timed = _of_runs(runs)
    if len(timed):
        # An empty table has no types to keep.
        both = [table, timed] if len(table) else [timed.reindex(columns=table.columns)]
        table = pd.concat(both, ignore_index=True)
    table = simulated_file.with_speed_up(table, baselines, PLACE)
    # Rows that are compared stand together, all in the order of their first.
    table = table.iloc[table.groupby(PLACE, sort=False, dropna=False).ngroup().argsort(kind="stable")]
    table = table.reset_index(drop=True)
    place = zip(table.dataset, table.model, table.workers, table.nodes)
    found = [to_target(where, method) for where, method in zip(place, table.method)]
    return report_files.with_table_digits(
        table.assign(
            target_score=[target for target, _ in found],
            steps_to_target=[steps for _, steps in found],
            seconds_to_target=[steps * s for (_, steps), s in zip(found, table.step_seconds)],
        )
    )


def _of_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """The geometric means of the times of runs; those whose workers shared cores have none."""
    if "train_seconds" not in runs:
        return pd.DataFrame()
    done = runs[(runs.status == "done") & runs.train_seconds.notna()]
    done = done.assign(log_seconds=np.log(done.train_seconds / done.steps), cluster=done.cluster.fillna(""))
    means = done.groupby([*SETTING, "cluster", "kind", "method"], sort=False).log_seconds.mean().reset_index()
    seconds = np.exp(means.log_seconds)
    return means.drop(columns="log_seconds").assign(step_seconds=seconds, own_rate=True)


def headline(table: pd.DataFrame) -> pd.DataFrame:
    """The rows that are shown first: links at their own rates, and one number of workers.

    For each data set and model it is the largest number with which the baseline has learned, or else the
    largest at all.
    """
    own = table[table.own_rate]
    learned = own.workers.where(own.target_score.notna())
    by = [own.dataset, own.model]
    most = learned.groupby(by).transform("max").fillna(own.workers.groupby(by).transform("max"))
    return own[own.workers == most]


def markdown(
    table: pd.DataFrame,
    title: str,
    baselines: Sequence[str],
    task: LearningTask,
    untimed: Sequence[str] = (),
) -> str:
    """The headline rows in Markdown, with the meaning of the columns.

    `untimed` says why runs with a process for each worker have no time.
    """
    rows = headline(table)
    several = rows[["dataset", "model"]].drop_duplicates().shape[0] > 1
    (baseline, *_) = baselines
    shown = pd.DataFrame(
        {
            **({"data set": rows.dataset, "model": rows.model} if several else {}),
            "workers": [numbers.workers(row) for _, row in rows.iterrows()],
            "cluster": rows.cluster,
            "method": rows.method,
            "ms a step": rows.step_seconds.map(numbers.milliseconds),
            "exposed, ms": rows.exposed_seconds.map(numbers.milliseconds),
            "hidden, ms": rows.hidden_seconds.map(numbers.milliseconds),
            "speed-up": rows.speed_up.map(numbers.ratio),
            "to the target, s": rows.seconds_to_target.map(numbers.to_target),
            "how": rows.kind,
        }
    )
    target = task.target_of(baseline, TARGET_OF_BASELINE)
    computing = ", ".join(table.computing.dropna().unique())
    notes = _NOTES.format(baselines=", ".join(baselines), target=target, computing=computing)
    left_out = len(table) - len(rows)
    if left_out:
        notes += f" {left_out} rows with other numbers of workers or rates of links are in times.csv."
    notes += "".join(f" Runs without a time: {why}." for why in untimed)
    return report_files.markdown(f"Times. {title}", shown, notes)


def write(
    table: pd.DataFrame,
    title: str,
    baselines: Sequence[str],
    folder: Path,
    task: LearningTask,
    untimed: Sequence[str] = (),
) -> None:
    """Write `times.csv` and `times.md`."""
    report_files.write_table(table[COLUMNS], folder / "times.csv", task)
    write_text(folder / "times.md", markdown(table, title, baselines, task, untimed))


PARTS = ("compute_seconds", "others_seconds", "server_seconds", "communication_seconds")
# What ladder.csv has, in this order.
LADDER_COLUMNS = [*PLACE, "rung", "method", "step_seconds", *PARTS, "first_over_this"]
_NOTE = (
    "Each rung makes one change to the one before it. After the rungs come the suite's other methods. "
    "Times: seconds of a step of the first rung, divided by those of this row, with cluster and kind "
    "alike. Simulated times are predictions: docs/simulation.md has their limits."
)


def ladder(times: pd.DataFrame, rungs: Sequence[str]) -> pd.DataFrame:
    """One row for each place, kind and method; the rungs first, from the lowest.

    Args:
        times: one row for each method and place, as `times.times` gives them; links have their own rates.
        rungs: labels, the lowest rung first. A rung without a time has no row.
    """
    own = times[times.own_rate.astype(bool)]
    number = {label: place for place, label in enumerate(rungs)}
    rung = own.method.map(number).astype("Int64")
    first = own[own.method == rungs[0]][[*PLACE, "step_seconds"]]
    both = own.assign(rung=rung).merge(
        first.rename(columns={"step_seconds": "first_seconds"}), on=PLACE, how="left"
    )
    both = both.assign(first_over_this=both.first_seconds / both.step_seconds)
    place = both.groupby(PLACE, sort=False, dropna=False).ngroup()
    ordered = both.assign(place=place).sort_values(["place", "rung"], kind="stable", na_position="last")
    return report_files.with_table_digits(ordered.reindex(columns=LADDER_COLUMNS).reset_index(drop=True))


def write_ladder(table: pd.DataFrame, title: str, folder: Path) -> None:
    """Write `ladder.csv` and `ladder.md`."""
    report_files.write_table(table, folder / "ladder.csv")
    shown = pd.DataFrame(
        {
            "workers": [numbers.workers(row) for _, row in table.iterrows()],
            "cluster": table.cluster,
            "method": table.method,
            "ms a step": table.step_seconds.map(numbers.milliseconds),
            "times": table.first_over_this.map(numbers.ratio),
            "how": table.kind,
        }
    )
    write_text(folder / "ladder.md", report_files.markdown(f"Ladder. {title}", shown, _NOTE))


_FOUND = {"speed_up": "step_speed_up", "seconds_to_target": "seconds_to_target"}
_ADDED = ["time_from", "time_nodes", "target_score", *_FOUND.values()]


def with_times(table: pd.DataFrame, times: pd.DataFrame) -> pd.DataFrame:
    """Add the columns `_ADDED`; they are empty where no time is known.

    Times of a block's own runs are preferred. Otherwise they are simulated, on one cluster: the first that
    has the block's number of nodes, or else the first.

    Args:
        table: from `summarise`.
        times: the table of times; rows of links that do not have their own rates are left out.
    """
    if times.empty:
        return table.assign(**dict.fromkeys(_ADDED, math.nan))
    times = times[times.own_rate.astype(bool)]
    return pd.concat([_with_place(block, times) for _, block in table.groupby(BLOCK, sort=False)])


def _with_place(block: pd.DataFrame, times: pd.DataFrame) -> pd.DataFrame:
    """Add the columns to the rows of one block."""
    first = block.iloc[0]
    there = times[
        (times.dataset == first.dataset) & (times.model == first.model) & (times.workers == first.workers)
    ]
    alike = there.nodes == first.nodes
    ranked = [there[(there.kind == first.kind) & alike], there[(there.kind == "simulated") & alike]]
    candidates = next((rows for rows in ranked if len(rows)), there[there.kind == "simulated"])
    if candidates.empty:
        return block.assign(**dict.fromkeys(_ADDED, math.nan))
    place = candidates.iloc[0]
    same = (candidates.cluster == place.cluster) & (candidates.nodes == place.nodes)
    found = candidates[same].set_index("method")
    columns = {new: block.method.map(found[old]).astype(float) for old, new in _FOUND.items()}
    return block.assign(
        time_from=f"{place.kind} ({place.cluster})" if place.cluster else str(place.kind),
        time_nodes=place.nodes,
        target_score=place.target_score,
        **columns,
    )
