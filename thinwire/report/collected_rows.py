"""Sound records of runs as tidy tables: rows are runs, evaluations, or parts of the traffic of a run."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from thinwire import record
from thinwire.config.cell import Cell
from thinwire.optim.tunable import SECTIONS, values_of
from thinwire.record import Record
from thinwire.report.require_sound_record import SoundRecord


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """The content of `summary.csv`, from what `row` gives for each run."""
    return str(pd.DataFrame(rows, columns=_columns(rows)).to_csv(index=False))


def row(cell: Cell, run: Record) -> dict[str, Any]:
    """The row of a run in `summary.csv`."""
    return _names(cell) | _row(cell, run)


def curves(records: Sequence[SoundRecord]) -> pd.DataFrame:
    """The rows of `curves.parquet`."""
    parts = []
    for each in records:
        made = each.curve.to_pandas()
        if not _seconds(each.run):
            # This run says nothing about time, so its seconds stay in the record.
            made = made.drop(columns=[c for c in made.columns if c.endswith("_seconds")])
        parts.append(made)
    return _with_names(records, parts)


def traffic(records: Sequence[SoundRecord]) -> pd.DataFrame:
    """The rows of the collected `traffic.parquet`: the traffic of whole runs."""
    parts = []
    for each in records:
        # These rows are sums so far.
        rows = each.traffic.to_pandas()
        # `kind` is how the run was made, in all collected files.
        parts.append(rows[rows.step == rows.step.max()].rename(columns={"kind": "payload_kind"}))
    return _with_names(records, parts)


def _with_names(records: Sequence[SoundRecord], parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The rows of all runs, each with the names of its run, and what is known about the whole run."""
    names = pd.DataFrame([_names(each.cell) | _about(each.run) for each in records])
    run_of_row = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    of_rows = names.iloc[run_of_row].reset_index(drop=True)
    return pd.concat([pd.concat(parts, ignore_index=True), of_rows], axis=1)


def _about(run: Record) -> dict[str, Any]:
    """What all rows of a run have in common, besides its names."""
    prepared = 0.0
    if run.preparation is not None:
        sent = run.preparation.traffic
        prepared = sent.payload_push_bytes + sent.payload_pull_bytes
    return {"kind": run.kind, "status": run.status, "preparation_payload_bytes": prepared}


def _columns(runs: Sequence[dict[str, Any]]) -> list[str]:
    """The columns of all rows. The columns of a result are there even if no run has a result."""
    result = [name for name in record.Result.model_fields if name not in ("metrics", "traffic", "seconds")]
    preparation = ["prepared_from", *(f"preparation_{name}" for name in (*record.BYTES, "seconds"))]
    clocks = [f"{name}_seconds" for name in record.Seconds.model_fields]
    timed = any(clock in row for row in runs for clock in clocks)
    ours = [*result, *record.BYTES, *(clocks if timed else []), *preparation]
    return [*dict.fromkeys(key for row in runs for key in row if key not in ours), *ours]


def _names(cell: Cell) -> dict[str, Any]:
    """What identifies a run."""
    return {
        "suite": cell.suite,
        "dataset": cell.dataset,
        "model": cell.model.label,
        "method": cell.method.label,
        "workers": cell.workers,
        "nodes": cell.nodes,
        "epochs": cell.recipe.epochs,
        "batch": cell.recipe.batch,
        "batch_per": cell.recipe.batch_per,
        **{f"recipe_{key}": values_of(cell.recipe).get(key, math.nan) for key in SECTIONS},
        "repetition": cell.repetition,
        "evaluated_on": cell.evaluate_on,
    }


def _row(cell: Cell, run: Record) -> dict[str, Any]:
    """What came out of a run."""
    row: dict[str, Any] = {
        "kind": run.kind,
        "cluster": run.cell.get("cluster", {}).get("name"),
        "status": run.status,
        "reason": run.reason,
        "no_time_because": run.no_time_because,
        "classes": run.classes,
        "evaluated_images": run.evaluated_images,
        "parameters": run.parameters,
        "total_steps": run.total_steps,
    }
    if run.preparation is not None:
        row["prepared_from"] = cell.preparation
        cost = run.preparation.traffic.model_dump() | {"seconds": run.preparation.seconds}
        row |= {f"preparation_{name}": value for name, value in cost.items()}
    if run.result is None:
        return row
    outcome = run.result.model_dump(exclude={"metrics", "seconds", "traffic"})
    metrics = {f"method/{name}": value for name, value in run.result.metrics.items()}
    return row | metrics | outcome | run.result.traffic.model_dump() | _seconds(run)


def _seconds(run: Record) -> dict[str, float]:
    """The run's seconds; none for workers in one process, and none if workers shared cores or GPUs."""
    if run.result is None or run.kind == "inprocess" or run.no_time_because is not None:
        return {}
    return {f"{name}_seconds": value for name, value in run.result.seconds.model_dump().items()}
