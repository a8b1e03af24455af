"""Sound records of runs as tidy tables: rows are runs, evaluations, or parts of the traffic of a run."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
import pyarrow as pa

from thinwire import record
from thinwire.config.cell import Cell
from thinwire.optim.tunable import SECTIONS, values_of
from thinwire.record import Record


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """The content of `summary.csv`, from what `row` gives for each run."""
    return str(pd.DataFrame(rows, columns=_columns(rows)).to_csv(index=False))


def row(cell: Cell, run: Record) -> dict[str, Any]:
    """The row of a run in `summary.csv`."""
    return _names(cell) | _row(run)


def curve(cell: Cell, run: Record, table: pa.Table) -> pd.DataFrame:
    """The rows of a run in `curves.parquet`.

    Args:
        cell: of the run.
        run: its `run.json`.
        table: its `curve.parquet`.
    """
    made = table.to_pandas()
    if not _seconds(run):
        # This run says nothing about time, so its seconds stay in the record.
        made = made.drop(columns=[c for c in made.columns if c.endswith("_seconds")])
    return made.assign(**_names(cell), **_about(run))


def traffic(cell: Cell, run: Record, table: pa.Table) -> pd.DataFrame:
    """The rows of a run in the collected `traffic.parquet`: the traffic of the whole run.

    Args:
        cell: of the run.
        run: its `run.json`.
        table: its `traffic.parquet`, whose rows are sums so far.
    """
    rows = table.to_pandas()
    last = rows[rows.step == rows.step.max()]
    # `kind` is how the run was made, in all collected files.
    return last.rename(columns={"kind": "payload_kind"}).assign(**_names(cell), **_about(run))


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
    preparation = [f"preparation_{name}" for name in (*record.BYTES, "seconds")]
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


def _row(run: Record) -> dict[str, Any]:
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
