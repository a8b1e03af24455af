"""The run of W&B that sums up a suite: the table of its methods, and an artifact with all its tables."""

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from thinwire import RULES_VERSION
from thinwire.base import digests
from thinwire.base.folders import variable
from thinwire.config.cell import Cell
from thinwire.config.suite import load
from thinwire.config.suite_task import task_of
from thinwire.publish.wandb import client, fields
from thinwire.report import report_files
from thinwire.report.rows.quantities import CELL

# The table in the run, and in the artifact; the folder of its files, beside the runs.
TABLE = "methods"
FILES = "tables"
JOB_TYPE = "summary"
# What the table shows, of the columns of a suite's summary and under the engine's names.
_SHOWN = [
    *(*CELL, "method", "kind", "done", "score_mean", "score_sd", "n", "verdict", "words"),
    *("total_bytes", "total_reduction_percent", "busiest_link_bytes", "between_nodes_bytes"),
    *("train_seconds", "train_seconds_sd", "no_time_because", "reason"),
]


def tables(suite: str, results: Path) -> list[Path]:
    """The tables of a suite that programs read; none before its report.

    Raises:
        UserError: one was changed after it was made.
    """
    folder = results / "tables" / suite
    if not (folder / report_files.SUMMARY).exists():
        return []
    files = sorted(folder.glob("*.csv"))
    for file in files:
        report_files.require_as_made(results, file)
    return files


def shown(suite: str, results: Path) -> pd.DataFrame:
    """The summary of a suite, a row for each method and place, with the names that its file has.

    Columns without any value are left out, as seconds are where no run has a time.
    """
    settings = load(suite)
    names = [task_of(settings).columns.get(name, name) for name in _SHOWN]
    table = pd.read_csv(results / "tables" / suite / report_files.SUMMARY)
    words = table.words.where(table.method != settings.baseline, "baseline")
    return table.assign(words=words).reindex(columns=names).dropna(axis="columns", how="all")


def about(suite: str, grid: Sequence[Cell]) -> dict[str, Any]:
    """The arguments of `wandb.init`. The run's id changes when a cell of the suite does.

    Args:
        suite: its name.
        grid: all its cells, also those that were not chosen.
    """
    digest = digests.of_identity([cell.fingerprint for cell in grid])
    return {
        "project": fields.project(suite),
        "id": fields.id_of(f"{suite}/{JOB_TYPE}", digest),
        "name": JOB_TYPE,
        "group": fields.bounded(f"{suite}/{JOB_TYPE}"),
        "job_type": JOB_TYPE,
        "tags": fields.tags(suite),
        "config": {"suite": suite, "rules": RULES_VERSION, "title": load(suite).title},
    }


def write(
    suite: str, grid: Sequence[Cell], results: Path, tables: Sequence[Path], folder: Path, files: Path
) -> None:
    """Write the run offline.

    Args:
        suite: its name.
        grid: as for `about`.
        results: the folder of results.
        tables: of the suite, as `tables` gives them.
        folder: the client's files will lie in `folder`/wandb, and those of the artifact with them.
        files: where the latter will be when the run is sent. The server reads this path, so that it is
            written relative to the working folder, and tells nothing about the machine.

    Raises:
        Exception: whatever the client raises.
    """
    run = client.begin(about(suite, grid), folder, "offline")
    import wandb

    content = json.loads(shown(suite, results).to_json(orient="split", double_precision=15))
    made = wandb.Table(columns=content["columns"], data=content["data"])
    artifact = wandb.Artifact(fields.bounded(fields.safe(f"tables-{suite}")), type="tables")
    # The client copies files of artifacts there, and not to the user's home.
    with variable("WANDB_DATA_DIR", str(folder / "copies")):
        for path in tables:
            artifact.add_file(str(path))
        artifact.add(made, TABLE)
        kept = folder / "wandb" / FILES
        kept.mkdir(parents=True)
        for entry in artifact.manifest.entries.values():
            shutil.copyfile(str(entry.local_path), kept / entry.path)
            entry.local_path = os.path.relpath(files / entry.path)
        run.log_artifact(artifact)
        run.log({TABLE: made})
    run.finish()
