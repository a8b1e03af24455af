"""Sound records of runs as tidy tables: rows are runs, evaluations, or parts of the traffic of a run."""

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import pandas as pd
import pyarrow as pa

from thinwire.base.learning import CLASSIFICATION, TASKS
from thinwire.config.cell import Cell
from thinwire.config.suite import load
from thinwire.optim.tunable import SECTIONS, values_of
from thinwire.records.record import Record
from thinwire.records.result import BYTES, Result, Seconds
from thinwire.train.record_check import SoundRecord

_AT_ONCE = 256
# Settings of NCCL that decide how fast it is, and whether bits repeat.
_NCCL = ("NCCL_ALGO", "NCCL_PROTO", "NCCL_NVLS_ENABLE")
_CLOCKS = [f"{name}_seconds" for name in Seconds.model_fields]


class Rows:
    """The rows of the collected files, of records that are added one after the other.

    A run that was measured on other machines than its baseline, or with other settings of NCCL, has no time
    there, see `_without_time`.
    """

    def __init__(self) -> None:
        # Of runs with a time: their numbers here, and their conditions, by block and method.
        self._timed: dict[tuple[str, str], dict[str, tuple[int, dict[str, object]]]] = {}
        self._runs: list[dict[str, object]] = []
        # What all rows of a run have in common.
        self._of_run: list[dict[str, object]] = []
        self._curves, self._traffic = _Tables(), _Tables()

    def add(self, made: SoundRecord) -> None:
        """Add the rows of a record."""
        cell, run, curve, traffic = made
        names = _names(cell)
        if _seconds(run):
            block = (cell.suite, cell.block)
            self._timed.setdefault(block, {})[cell.method.label] = (len(self._runs), _conditions(run))
        self._runs.append(names | _row(cell, run))
        self._of_run.append(names | _about(run))
        if not _seconds(run):
            # This run says nothing about time, so its seconds stay in the record.
            curve = curve.drop_columns([c for c in curve.column_names if c.endswith("_seconds")])
        self._curves.add(curve)
        # The rows of a record are sums so far, so those of its last step are the traffic of the whole run.
        step = traffic["step"].to_numpy()
        last = step == step.max(initial=0)
        # `kind` is how the run was made, in all collected files.
        self._traffic.add(traffic.filter(last).rename_columns({"kind": "payload_kind"}))

    def summary(self) -> str:
        """The content of `summary.csv`."""
        runs = list(self._runs)
        for number, why in self._without_time().items():
            kept = {key: value for key, value in runs[number].items() if key not in _CLOCKS}
            runs[number] = kept | {"no_time_because": why}
        return str(pd.DataFrame(runs, columns=_columns(runs)).to_csv(index=False))

    def curves(self) -> pd.DataFrame:
        """The rows of `curves.parquet`."""
        rows = self._joined(self._curves)
        if without := self._without_time():
            rows.loc[np.isin(self._curves.run_of_row(), list(without)), _CLOCKS] = math.nan
        return rows

    def traffic(self) -> pd.DataFrame:
        """The rows of the collected `traffic.parquet`: the traffic of whole runs."""
        return self._joined(self._traffic)

    def _joined(self, tables: "_Tables") -> pd.DataFrame:
        """The rows of all runs, each with the names of its run, and what is known about the whole run."""
        of_rows = pd.DataFrame(self._of_run).iloc[tables.run_of_row()].reset_index(drop=True)
        return pd.concat([tables.whole().to_pandas(), of_rows], axis=1)

    def _without_time(self) -> dict[int, str]:
        """The numbers of the runs that were measured under other conditions than their baseline, and why.

        The runs of a block are one job. If it ends early, its next attempt may have other machines, or an
        environment with other settings of NCCL. If the baseline has no time, the first run that has one
        stands for it.
        """
        found: dict[int, str] = {}
        for (suite, _), of_block in self._timed.items():
            compared = _baseline(suite) if _baseline(suite) in of_block else next(iter(of_block))
            _, wanted = of_block[compared]
            for number, conditions in of_block.values():
                for what in [what for what in wanted if conditions[what] != wanted[what]][:1]:
                    found[number] = f"its {what} were not those of {compared}"
        return found


class _Tables:
    """A table of each run, which become one. They are joined at times: a table takes more than its rows."""

    def __init__(self) -> None:
        self._lengths: list[int] = []
        self._parts: list[pa.Table] = []

    def add(self, table: pa.Table) -> None:
        self._lengths.append(len(table))
        self._parts.append(table)
        if len(self._parts) == _AT_ONCE:
            self._parts = [self.whole().combine_chunks()]

    def run_of_row(self) -> np.ndarray:
        """The number of the run of each row."""
        return np.repeat(np.arange(len(self._lengths)), self._lengths)

    def whole(self) -> pa.Table:
        """All rows; a column that some of the records lack is empty there."""
        return pa.concat_tables(self._parts, promote_options="default")


@cache
def _baseline(suite: str) -> str:
    """The label of the baseline of a suite."""
    return load(suite).baseline


def _conditions(run: Record) -> dict[str, object]:
    """What a run and its baseline must have in common for their times to be compared."""
    environment, hardware = (run.provenance.get(name) or {} for name in ("environment", "hardware"))
    hosts = {rank["host"] for rank in run.provenance.get("ranks") or []}
    return {
        # Machines of a cloud may all have one name.
        "machines": (hosts, hardware.get("processor"), hardware.get("cores")),
        "settings of NCCL": [environment.get(name) for name in _NCCL],
    }


def _about(run: Record) -> dict[str, object]:
    """What all rows of a run have in common, besides its names."""
    prepared = 0.0
    if run.preparation is not None:
        sent = run.preparation.traffic
        prepared = sent.payload_push_bytes + sent.payload_pull_bytes
    return {"kind": run.kind, "status": run.status, "preparation_payload_bytes": prepared}


def _columns(runs: Sequence[dict[str, object]]) -> list[str]:
    """The columns of all rows. The columns of a result are there even if no run has a result."""
    tasks = {str(row["task"]) for row in runs} or {CLASSIFICATION.name}
    others = [
        c for task in TASKS.values() if task.name not in tasks for c in (task.test_column, task.best_column)
    ]
    nested = ("metrics", "traffic", "seconds")
    result = [name for name in Result.model_fields if name not in (*nested, *others)]
    preparation = ["prepared_from", *(f"preparation_{name}" for name in (*BYTES, "seconds"))]
    timed = any(clock in row for row in runs for clock in _CLOCKS)
    ours = [*result, *BYTES, *(_CLOCKS if timed else []), *preparation]
    return [*dict.fromkeys(key for row in runs for key in row if key not in ours), *ours]


def _names(cell: Cell) -> dict[str, object]:
    """What identifies a run."""
    labels, values = cell.labels, values_of(cell.recipe)
    repetition = labels.pop("repetition")
    return {
        **labels,
        "epochs": cell.recipe.epochs,
        "batch": cell.recipe.batch,
        "batch_per": cell.recipe.batch_per,
        **{f"recipe_{key}": values.get(key, math.nan) for key in SECTIONS},
        "repetition": repetition,
        "evaluated_on": cell.evaluate_on,
    }


def _row(cell: Cell, run: Record) -> dict[str, object]:
    """What came out of a run."""
    evaluated = "evaluated_images" if run.learns is CLASSIFICATION else "evaluated_characters"
    row: dict[str, object] = {
        "kind": run.kind,
        "cluster": run.cell.get("cluster", {}).get("name"),
        "status": run.status,
        "reason": run.reason,
        "no_time_because": run.no_time_because,
        "task": run.task,
        "classes": run.classes,
        evaluated: getattr(run, evaluated),
        "parameters": run.parameters,
        "total_steps": run.total_steps,
    }
    if run.partition is not None:
        row |= {"partition": str(cell.recipe.partition), "partition_divergence": run.partition.divergence}
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
