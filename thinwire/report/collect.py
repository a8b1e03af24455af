"""All runs in three tidy tables: rows are runs, evaluations, or parts of the traffic of a run."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from thinwire import digests, record
from thinwire.config.cell import Cell
from thinwire.config.expand_suite import cells
from thinwire.config.grid_subset import WHOLE, Subset
from thinwire.errors import UserError
from thinwire.files import aside, write_text
from thinwire.optim.tunable import SECTIONS, values_of
from thinwire.record import Record
from thinwire.report.other_records import other_records
from thinwire.suggested_command import suggested_command
from thinwire.train.make_again import advice
from thinwire.train.record_check import record_of
from thinwire.train.result_folders import record_folder

SUMMARY, CURVES, TRAFFIC = "summary.csv", "curves.parquet", "traffic.parquet"
# Holds the digests of all three.
COLLECTED = "collected.json"


def collect(suites: Iterable[str], results: Path, subset: Subset = WHOLE) -> list[str]:
    """Write `summary.csv`, `curves.parquet` and `traffic.parquet`, and their digests.

    They have the wanted runs of these suites, and those of other suites whose records are sound and current.

    Returns:
        Sentences about the records of other suites that are left out.

    Args:
        suites: their names.
        results: the folder of results.
        subset: the cells that are wanted; records of others are not read.

    Raises:
        UserError: a record of these suites is missing, damaged or changed, or belongs to another state of its
            suite.
    """
    runs, curves, traffic = [], [], []
    grid = [cell for suite in suites for cell in cells(suite)]
    wanted = [(c, record_of(record_folder(results, c), c, advice(c, results))) for c in subset.keep(grid)]
    others, left_out = other_records(results, grid)
    for cell, run in [*wanted, *others]:
        names = _names(cell)
        runs.append(names | _row(run))
        folder = record_folder(results, cell)
        curve = pd.read_parquet(folder / record.CURVE)
        if not _seconds(run):
            # This run says nothing about time, so its seconds stay in the record.
            curve = curve.drop(columns=[c for c in curve.columns if c.endswith("_seconds")])
        prepared = 0.0
        if run.preparation is not None:
            sent = run.preparation.traffic
            prepared = sent.payload_push_bytes + sent.payload_pull_bytes
        about = {"kind": run.kind, "status": run.status, "preparation_payload_bytes": prepared}
        curves.append(curve.assign(**names, **about))
        traffic.append(_at_the_end(pd.read_parquet(folder / record.TRAFFIC)).assign(**names, **about))
    write_text(results / SUMMARY, pd.DataFrame(runs, columns=_columns(runs)).to_csv(index=False))
    for name, parts in ((CURVES, curves), (TRAFFIC, traffic)):
        with aside(results / name) as scratch:
            pd.concat(parts, ignore_index=True).to_parquet(scratch)
    content = {"files": digests.of_files(results, (SUMMARY, CURVES, TRAFFIC))}
    digests.write_json(results / COLLECTED, content)
    return left_out


def read_summary(results: Path, suite: str) -> pd.DataFrame:
    """The rows of a suite in `summary.csv`. Labels are read as text, even those that look like numbers.

    Raises:
        UserError: the file is missing, was changed since it was collected, has no row of the suite, or was
            collected by an earlier version.
    """
    path = results / SUMMARY
    _require_as_collected(path, suite)
    texts = dict.fromkeys(
        ("suite", "dataset", "model", "method", "kind", "cluster", "status", "reason", "no_time_because"),
        "string",
    )
    runs = pd.read_csv(path, dtype=texts, keep_default_na=False, na_values=[""])
    runs = runs[runs.suite == suite]
    if runs.empty:
        raise UserError(f"{path} has no run of suite {suite}: run {_collect(suite, results)} first")
    if missing := [name for name in (*record.BYTES, "classes", "evaluated_images") if name not in runs]:
        raise UserError(
            f"{path} has no column {missing[0]}, because an earlier version of thinwire wrote it: run "
            f"{_collect(suite, results)} first"
        )
    return runs


def read_curves(results: Path, suite: str) -> pd.DataFrame:
    """The rows of a suite in `curves.parquet`.

    Raises:
        UserError: the file is missing, or was changed since it was collected.
    """
    return _rows_of(suite, results / CURVES)


def read_traffic(results: Path, suite: str) -> pd.DataFrame:
    """The rows of a suite in `traffic.parquet`.

    Raises:
        UserError: the file is missing, or was changed since it was collected.
    """
    return _rows_of(suite, results / TRAFFIC)


def _rows_of(suite: str, path: Path) -> pd.DataFrame:
    _require_as_collected(path, suite)
    rows = pd.read_parquet(path)
    return rows[rows.suite == suite]


def _require_as_collected(path: Path, suite: str) -> None:
    """Refuse a file that the last `collect` did not write, or that was changed since."""
    try:
        found = digests.of_file(path)
        collected = digests.read_json(path.with_name(COLLECTED))
        if collected["files"].get(path.name) != found:
            raise digests.Damaged(f"{path} is not as it was collected (its SHA-256 differs)")
    except digests.Damaged as error:
        again = _collect(suite, path.parent)
        raise UserError(f"{error}: run {again} (or the pipeline) first") from None


def _collect(suite: str, results: Path) -> str:
    return suggested_command("collect", suite, results=results)


def _columns(runs: list[dict[str, Any]]) -> list[str]:
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


def _at_the_end(traffic: pd.DataFrame) -> pd.DataFrame:
    """The traffic of the whole run: its rows are sums so far, so those of the last evaluation."""
    last = traffic[traffic.step == traffic.step.max()]
    # `kind` is how the run was made, in all collected files.
    return last.rename(columns={"kind": "payload_kind"})


def _seconds(run: Record) -> dict[str, float]:
    """The run's seconds; none for workers in one process, and none if workers shared cores or GPUs."""
    if run.result is None or run.kind == "inprocess" or run.no_time_because is not None:
        return {}
    return {f"{name}_seconds": value for name, value in run.result.seconds.model_dump().items()}
