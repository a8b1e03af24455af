"""The table `to_target.csv`: what it takes each method to reach targets that the baseline's accuracy sets."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from thinwire.files import write_text
from thinwire.report.savings import CELL
from thinwire.report.steps_to_target import TARGET_OF_BASELINE, mean_final_accuracy, reaching
from thinwire.statistics.reference_convergence import Convergence, convergence

# The targets as shares of the baseline's mean accuracy at the end: rankings may differ between targets.
SHARES = (0.95, 0.98, TARGET_OF_BASELINE)
COLUMNS = (
    *CELL,
    "method",
    "kind",
    "target_accuracy_percent",
    "runs",
    "reached",
    "epochs_median",
    "steps_median",
    "payload_bytes_median",
    "train_seconds_median",
    "expected_epochs",
    "convergence",
    "reference_workers",
)
_PLACE = [*CELL, "kind"]
_RUN = [*_PLACE, "method", "repetition"]
_COSTS = ["epochs", "steps", "payload_bytes", "train_seconds"]


def to_target(runs: pd.DataFrame, curves: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """One row for each cell, kind, method and target, in the order of the runs; skipped runs do not count.

    A run that does not reach the target needs infinitely many epochs, steps, bytes and seconds. There is no
    row where no run of the baseline is done. The bytes include those of the method's preparation.

    Args:
        runs: one row for each run.
        curves: one row for each evaluation of each run.
        baseline: label of the method whose accuracy sets the targets.
    """
    ran = runs[runs.status != "skipped"]
    every = dict(iter(curves.groupby(_RUN)))
    rows: list[dict[str, Any]] = []
    for place, here in ran.groupby(_PLACE, sort=False):
        own = here[here.method == baseline]
        if not (own.status == "done").any():
            continue
        final = mean_final_accuracy(pd.concat(_curves(own, every).values()))
        one_worker = _one_worker(ran, own, baseline)
        reference = own if one_worker.empty else one_worker
        for method, group in here.groupby("method", sort=False):
            for target in (share * final for share in SHARES):
                needs = _needs(_curves(group, every), target)
                allowed = _needs(_curves(reference, every), target)
                row = {**dict(zip(_PLACE, place)), "method": method, "target_accuracy_percent": target}
                row |= _summary(needs) | {"reference_workers": reference.workers.iloc[0]}
                row["convergence"] = (
                    Convergence.REFERENCE
                    if group.index.equals(reference.index)
                    else convergence(needs.epochs, allowed.epochs, reference.epochs.max())
                ).value
                rows.append(row)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def write(table: pd.DataFrame, folder: Path) -> None:
    """Write `to_target.csv`."""
    write_text(folder / "to_target.csv", table.to_csv(index=False, float_format="%.6g"))


def _curves(runs: pd.DataFrame, every: dict[Any, pd.DataFrame]) -> dict[int, pd.DataFrame | None]:
    """The curve of each run by its repetition; None for a run that ended before its first evaluation."""
    return {run[-1]: every.get(run) for run in runs[_RUN].itertuples(index=False, name=None)}


def _needs(curves: dict[int, pd.DataFrame | None], target: float) -> pd.DataFrame:
    """What each run needs to reach the target, infinite for a miss, with the repetition as index.

    `train_seconds` is missing where the run has no times; `spent_epochs` counts the epochs of misses, too.
    """
    return pd.DataFrame(
        [_need(curve, target) for curve in curves.values()],
        index=pd.Index(curves),
        columns=[*_COSTS, "spent_epochs"],
        dtype=float,
    )


def _need(curve: pd.DataFrame | None, target: float) -> list[float]:
    if curve is None:
        return [np.inf, np.inf, np.inf, np.nan, 0.0]
    untimed = "train_seconds" not in curve or curve.train_seconds.isna().any()
    reached = reaching(curve, target)
    if reached.empty:
        return [np.inf, np.inf, np.inf, np.nan if untimed else np.inf, curve.epoch.max()]
    first = reached.iloc[0]
    payload = first.payload_push_bytes + first.payload_pull_bytes + first.preparation_payload_bytes
    return [first.epoch, first.step, payload, np.nan if untimed else first.train_seconds, first.epoch]


def _summary(needs: pd.DataFrame) -> dict[str, Any]:
    reached = int(np.isfinite(needs.epochs).sum())
    return {
        "runs": len(needs),
        "reached": reached,
        **{f"{cost}_median": needs[cost].median() for cost in _COSTS},
        "expected_epochs": needs.spent_epochs.sum() / reached if reached else np.inf,
    }


def _one_worker(runs: pd.DataFrame, own: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """The baseline's runs with one worker that train like these: the same batch of the run, and epochs."""
    like = own.iloc[0]
    batch = runs.batch.where(runs.batch_per == "run", runs.batch * runs.workers)
    same = (runs[["dataset", "model", "kind", "epochs"]] == like[["dataset", "model", "kind", "epochs"]]).all(
        axis=1
    )
    return runs[same & (runs.method == baseline) & (runs.workers == 1) & (batch == batch[own.index[0]])]
