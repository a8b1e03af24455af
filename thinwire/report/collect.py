"""All runs of some suites as tidy tables: one row a run, one row an evaluation."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from thinwire import record
from thinwire.config.cell import Cell
from thinwire.config.grid import cells
from thinwire.errors import UserError
from thinwire.files import write_text, writing
from thinwire.record import Record
from thinwire.train.places import record_folder

SUMMARY, CURVES = "summary.csv", "curves.parquet"


def collect(suites: Iterable[str], results: Path) -> None:
    """Write `summary.csv` and `curves.parquet` from the records of these suites.

    Raises:
        UserError: a record is missing or not sound, or belongs to another state of its suite.
    """
    runs, curves = [], []
    for cell in (cell for suite in suites for cell in cells(suite)):
        folder = record_folder(results, cell)
        run = record.read(folder / record.RUN)
        if run.fingerprint != cell.fingerprint:
            raise UserError(
                f"{folder / record.RUN} was made with other options than the suite has now: let the "
                "pipeline make it again"
            )
        names = _names(cell)
        runs.append(names | _row(run))
        curve = pd.read_parquet(folder / record.CURVE)
        # In-process runs say nothing about time, so their clocks stay in the record.
        curve = curve.drop(columns=[c for c in curve.columns if c.endswith("_seconds")])
        curves.append(curve.assign(**names, kind=run.kind))
    write_text(results / SUMMARY, pd.DataFrame(runs).to_csv(index=False))
    with writing(results / CURVES):
        pd.concat(curves, ignore_index=True).to_parquet(results / CURVES)


def _names(cell: Cell) -> dict[str, Any]:
    """What identifies a run."""
    return {
        "suite": cell.suite,
        "dataset": cell.dataset,
        "model": cell.model.label,
        "method": cell.method.label,
        "workers": cell.workers,
        "nodes": cell.nodes,
        "batch": cell.recipe.batch,
        "batch_per": cell.recipe.batch_per,
        "repetition": cell.repetition,
        "evaluated_on": cell.evaluate_on,
    }


def _row(run: Record) -> dict[str, Any]:
    """What came out of a run."""
    row: dict[str, Any] = {
        "kind": run.kind,
        "status": run.status,
        "reason": run.reason,
        "parameters": run.parameters,
        "total_steps": run.total_steps,
    }
    if run.result is None:
        return row
    outcome = run.result.model_dump(exclude={"seconds", "traffic"})
    return row | outcome | run.result.traffic.model_dump()
