"""The runs of a tuning, and which of its trials are the best."""

import json
import math
from pathlib import Path
from typing import Any

import pandas as pd

from thinwire.base import digests
from thinwire.base.files import write_json
from thinwire.base.learning import LearningTask
from thinwire.config import suite as suites
from thinwire.config import tuning_space
from thinwire.config.cell import Cell
from thinwire.config.expand import cells
from thinwire.config.suite_task import task_of
from thinwire.config.trials import (
    finalists_path,
    of_trial_label,
    only_finalists,
    trial_label,
)
from thinwire.config.tuning_space import EVERYWHERE, Tuning
from thinwire.config.yaml_file import Size
from thinwire.optim.tunable import values_of
from thinwire.records import record
from thinwire.records.record import Record
from thinwire.train.result_files import record_folder
from thinwire.train.reuse import record_of


def runs_of_trials(suite: str, results: Path) -> tuple[pd.DataFrame, list[str]]:
    """The runs of the tuning of a suite, and the paths of those that are missing.

    If the first runs of all trials are there, this writes which of them are the finalists. docs/tuning.md
    explains the columns.

    Raises:
        UserError: a record is damaged or changed, or belongs to another state of the suite.
    """
    rows: list[dict[str, Any]] = []
    missing: list[str] = []
    tuning = tuning_space.read(suite)
    stages = suites.stages(suite)
    for finals in (False, True):
        wanted = [cell for stage in stages if stage.finals == finals for cell in cells(stage.name)]
        if missing or not wanted:
            break
        if finals:
            _write_finalists(suite, pd.DataFrame(rows), tuning, results)
        for cell in only_finalists(wanted, results):
            folder = record_folder(results, cell)
            if not (folder / record.RUN).exists():
                missing.append(f"{cell.suite}/{cell.path}")
                continue
            repetition = cell.repetition + tuning.repetitions * finals
            row = _row(cell, record_of(folder, cell)) | {"repetition": repetition}
            rows.append(row | {"run_sha256": digests.of_file(folder / record.RUN)})
    methods = list(dict.fromkeys(row["method"] for row in rows))
    rows.sort(key=lambda row: (methods.index(row["method"]), row["trial"]))
    return pd.DataFrame(rows), missing


def _write_finalists(suite: str, runs: pd.DataFrame, tuning: Tuning, results: Path) -> None:
    """Write the labels of the finalists in each place; a choice over all places has the same in each."""
    assert tuning.finalists is not None
    task = task_of(suites.read(suites.path_of(suite)))
    every = tuning.model_copy(update={"choose": "each"}).places
    found: dict[str, list[str]] = {place: [] for place in every}
    for place in tuning.places:
        for method, own in at_place(runs, place).groupby("method", sort=False):
            best_of = [trial_label(str(method), t) for t in finalists(trials(own), tuning.finalists, task)]
            for each in every if place == EVERYWHERE else [place]:
                found[each] += best_of
    path = finalists_path(results, suite)
    # A file that is written again is newer than the runs that follow from it, which would be made again.
    if not path.exists() or json.loads(path.read_text(encoding="utf-8")) != found:
        write_json(path, found)


def _row(cell: Cell, run: Record) -> dict[str, object]:
    method, trial = of_trial_label(cell.method.label)
    row: dict[str, object] = {
        "method": method,
        "trial": trial,
        **{name: label for name, label in cell.labels.items() if name not in ("suite", "method")},
        **values_of(cell.recipe),
        **{f"option/{name}": value for name, value in cell.method.options.items()},
        "status": run.status,
        "reason": run.reason,
        "fingerprint": run.fingerprint,
    }
    made = run.result
    if made is None:
        return row | dict.fromkeys(("tuned_score", "payload_bytes", "epochs", "seconds"), math.nan)
    return row | {
        "tuned_score": getattr(made, run.learns.test_column),
        "payload_bytes": made.traffic.payload_push_bytes + made.traffic.payload_pull_bytes,
        "epochs": made.steps / (run.steps_per_epoch or 1),
        "seconds": made.seconds.train + made.seconds.eval,
    }


def trials(runs: pd.DataFrame) -> pd.DataFrame:
    """One row for each method and trial, in their order.

    Columns: `method`, `trial`, `ended` (are all its runs done?), and the means over its runs,
    `tuned_score` and `payload_bytes`. A trial has neither if one of its runs diverged, failed or was
    skipped.
    """
    grouped = runs.groupby(["method", "trial"], sort=False)
    table = grouped[["tuned_score", "payload_bytes"]].mean()
    table["ended"] = grouped.status.agg(lambda status: bool((status == "done").all()))
    # Rounded, because the order in which floats are added must not break a tie.
    table = table.round(6)
    table.loc[~table.ended, ["tuned_score", "payload_bytes"]] = math.nan
    return table.reset_index()


def best(of_method: pd.DataFrame, task: LearningTask) -> pd.Series:
    """The best of the rows of one method in `trials`; the first one if no trial has ended."""
    return _best_first(of_method, task).iloc[0]


def finalists(of_method: pd.DataFrame, number: int, task: LearningTask) -> list[int]:
    """The trials of the best rows of one method in `trials`: at most `number`, of those that have ended."""
    return [int(trial) for trial in _best_first(of_method[of_method.ended], task).trial[:number]]


def _best_first(of_method: pd.DataFrame, task: LearningTask) -> pd.DataFrame:
    least_first = [not task.higher_is_better, True, True]
    return of_method.sort_values(
        ["tuned_score", "payload_bytes", "trial"], ascending=least_first, na_position="last"
    )


def at_place(runs: pd.DataFrame, place: str) -> pd.DataFrame:
    """The runs in one place of `Tuning.places`."""
    if place == EVERYWHERE:
        return runs
    dataset, model, size = place.split("/")
    labels = [Size(workers=w, nodes=n).label for w, n in zip(runs.workers, runs.nodes)]
    return runs[(runs.dataset == dataset) & (runs.model == model) & (pd.Series(labels, runs.index) == size)]


def eligible(runs: pd.DataFrame, tuning: Tuning, task: LearningTask) -> pd.DataFrame:
    """The rows of `trials` of one method in one place among which the choice is: all, or the finalists'.

    If no trial has ended its first runs, there are no finalists, and all are eligible.
    """
    of_method = trials(runs)
    if tuning.finalists is None:
        return of_method
    first = trials(runs[runs.repetition < tuning.repetitions])
    last = of_method[of_method.trial.isin(finalists(first, tuning.finalists, task))]
    return last if len(last) else of_method
