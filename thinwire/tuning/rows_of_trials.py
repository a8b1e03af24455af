"""The record of a tuning: one row for each run of each trial."""

import math
from pathlib import Path

import pandas as pd

from thinwire import digests, record
from thinwire.config.cell import Cell
from thinwire.config.expand_suite import cells
from thinwire.config.tuning_suite import PREFIX, of_trial_label
from thinwire.optim.tunable import values_of
from thinwire.record import Record
from thinwire.train.record_out_of_date import record_of
from thinwire.train.result_folders import record_folder


def runs_of_trials(suite: str, results: Path) -> pd.DataFrame:
    """All runs of the tuning of a suite; docs/tuning.md explains the columns.

    Raises:
        UserError: a record is missing, damaged or changed, or belongs to another state of the suite.
    """
    rows = []
    for cell in cells(f"{PREFIX}{suite}"):
        folder = record_folder(results, cell)
        run = record_of(folder, cell)
        rows.append(_row(cell, run) | {"run_sha256": digests.of_file(folder / record.RUN)})
    methods = list(dict.fromkeys(row["method"] for row in rows))
    rows.sort(key=lambda row: (methods.index(row["method"]), row["trial"]))
    return pd.DataFrame(rows)


def _row(cell: Cell, run: Record) -> dict[str, object]:
    method, trial = of_trial_label(cell.method.label)
    row: dict[str, object] = {
        "method": method,
        "trial": trial,
        "dataset": cell.dataset,
        "model": cell.model.label,
        "workers": cell.workers,
        "nodes": cell.nodes,
        "repetition": cell.repetition,
        **values_of(cell.recipe),
        **{f"option/{name}": value for name, value in cell.method.options.items()},
        "status": run.status,
        "reason": run.reason,
        "fingerprint": run.fingerprint,
    }
    made = run.result
    if made is None:
        return row | dict.fromkeys(("accuracy_percent", "payload_bytes", "epochs", "seconds"), math.nan)
    return row | {
        "accuracy_percent": made.test_accuracy_percent,
        "payload_bytes": made.traffic.payload_push_bytes + made.traffic.payload_pull_bytes,
        "epochs": made.steps / (run.steps_per_epoch or 1),
        "seconds": made.seconds.train + made.seconds.eval,
    }
