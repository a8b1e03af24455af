"""The value of a claim's metric in each run."""

import math

import pandas as pd

from thinwire.config.claim_schema import Metric
from thinwire.report.steps_to_target import reaching
from thinwire.report.target_accuracy import TARGET_OF_BASELINE

# What all runs have in common that are compared with each other.
CELL = ["dataset", "model", "workers", "nodes", "kind", "cluster"]
_PREPARATION = ["preparation_payload_push_bytes", "preparation_payload_pull_bytes"]
# The columns of summary.csv whose sum is the metric; a missing preparation counts as 0.
_SUMS = {
    "accuracy": ["test_accuracy_percent"],
    "push": ["payload_push_bytes"],
    "pull": ["payload_pull_bytes"],
    "payload": ["payload_push_bytes", "payload_pull_bytes"],
    "payload_with_preparation": ["payload_push_bytes", "payload_pull_bytes", *_PREPARATION],
    "wire": ["wire_sent_bytes"],
    "between_nodes": ["between_nodes_bytes"],
}


def metric_values(metric: Metric, runs: pd.DataFrame, curves: pd.DataFrame, baseline: str) -> pd.Series:
    """The metric of each run that is done; the others have NaN, as do runs without times for seconds.

    Percent for accuracy, bytes, or seconds. A run that never reaches the target takes infinitely long.

    Args:
        metric: of the claim.
        runs: one row for each run, as collected; `cluster` is "" where there is none.
        curves: one row for each evaluation of these runs; only seconds to the target need them.
        baseline: label of the method whose accuracy sets the target.
    """
    if metric == "seconds_of_a_step":
        timed = "train_seconds" in runs
        values = runs.train_seconds / runs.steps if timed else pd.Series(math.nan, runs.index)
    elif metric == "seconds_to_target":
        values = _seconds_to_target(runs, curves, baseline)
    else:
        values = runs[_SUMS[metric]].assign(**runs[_PREPARATION].fillna(0)).loc[:, _SUMS[metric]].sum(axis=1)
    return values.where(runs.status == "done")


def _seconds_to_target(runs: pd.DataFrame, curves: pd.DataFrame, baseline: str) -> pd.Series:
    """The training seconds until the first evaluation that reaches the target.

    It is a share of the mean accuracy of the baseline at the end, in the same cell.
    """
    if "train_seconds" not in runs or "train_seconds" not in curves:
        return pd.Series(math.nan, runs.index)
    of_baseline = runs[(runs.method == baseline) & (runs.status == "done")]
    targets = TARGET_OF_BASELINE * of_baseline.groupby(CELL).test_accuracy_percent.mean()
    names = ["dataset", "model", "method", "workers", "nodes", "kind", "repetition"]
    evaluations = dict(iter(curves.groupby(names)))
    found = []
    for run in runs.to_dict("records"):
        target = targets.get(tuple(run[name] for name in CELL), math.nan)
        curve = evaluations.get(tuple(run[name] for name in names))
        if curve is None or math.isnan(target) or math.isnan(run["train_seconds"]):
            found.append(math.nan)
        else:
            found.append(float(min(reaching(curve, target).train_seconds, default=math.inf)))
    return pd.Series(found, runs.index)
