"""Puts a rerun beside the committed results: cell by cell, is it the same within the interval?"""

import math
from pathlib import Path

import numpy as np
import pandas as pd

from thinwire.base.errors import UserError
from thinwire.base.learning import CLASSIFICATION
from thinwire.report.paired import of_mean
from thinwire.report.rows.collect import read_summary, suites_to_show, task_of_runs

_CELL = ["suite", "dataset", "model", "workers", "nodes", "method"]
PAYLOAD = "payload_bytes"
_HIGHEST = {CLASSIFICATION.columns["tuned_score"]: 100.0}
# How sure it is that a rerun without a fault has no cell outside its interval: 1 - LEVEL.
LEVEL = 0.05
# Relative difference of floats that were written as text.
_ROUNDING = 1e-9


def compare(reference: Path, results: Path) -> pd.DataFrame:
    """Compare the runs of all cells that both folders have.

    Args:
        reference: the folder of results that is committed.
        results: another one, whose runs may be fewer.

    Returns:
        A row for each cell and metric: the number of runs and the means of those that are done, on both
        sides; the interval in which the mean of the rerun is expected; and the verdict.

        - `identical`: every run has the value of the run with its repetition
        - `inside`, `outside`: the interval holds the rerun's mean, or not
        - `outside`, too: a run has not ended as the run with its repetition, for example diverged
        - `inconclusive`: fewer than two runs tell the interval

    Raises:
        UserError: a collected file is missing or was changed, or the folders have no cell in common.
    """
    committed, rerun = _runs(reference), _runs(results)
    both = committed[_CELL].drop_duplicates().merge(rerun[_CELL].drop_duplicates(), on=_CELL)
    if both.empty:
        raise UserError(f"{results} and {reference} have no cell in common: nothing can be compared")
    # Bonferroni's correction, because every cell may be outside by chance, in each of two metrics.
    level = LEVEL / (2 * len(both))
    there, here = dict(list(committed.groupby(_CELL))), dict(list(rerun.groupby(_CELL)))
    rows = []
    for cell in both.itertuples(index=False, name=None):
        score = task_of_runs(there[cell]).columns["tuned_score"]
        for metric in (score, PAYLOAD):
            judged = _judge(there[cell], here[cell], metric, level)
            rows.append({**dict(zip(_CELL, cell)), "metric": metric, **judged})
    return pd.DataFrame(rows)


def _runs(folder: Path) -> pd.DataFrame:
    """The runs of all suites in a folder of results."""
    of_suites = []
    for suite in suites_to_show(folder):
        runs = read_summary(folder, suite)
        runs[task_of_runs(runs).columns["tuned_score"]] = runs.score
        runs[PAYLOAD] = runs.payload_push_bytes + runs.payload_pull_bytes
        of_suites.append(runs)
    return pd.concat(of_suites, ignore_index=True)


def _judge(committed: pd.DataFrame, rerun: pd.DataFrame, metric: str, level: float) -> dict[str, object]:
    expected, found = (runs[runs.status == "done"][metric] for runs in (committed, rerun))
    pairs = committed.merge(rerun, on="repetition", suffixes=("", "_rerun"))
    low, high = math.nan, math.nan
    if len(expected) and len(found):
        low, high = np.clip(of_mean(expected, len(found), level), 0.0, _HIGHEST.get(metric, math.inf))
    # Apart from rounding. Runs that are not done have no value on both sides.
    same = np.isclose(pairs[metric], pairs[f"{metric}_rerun"], rtol=_ROUNDING, atol=0.0, equal_nan=True)
    mean = float(found.mean())
    if not pairs.status.equals(pairs.status_rerun):
        verdict = "outside"
    elif len(pairs) == len(rerun) and same.all():
        verdict = "identical"
    elif len(expected) < 2 or not len(found):
        verdict = "inconclusive"
    else:
        verdict = "inside" if low <= mean <= high else "outside"
    return {
        "reference_runs": len(committed),
        "runs": len(rerun),
        "reference_mean": float(expected.mean()),
        "mean": mean,
        "low": low,
        "high": high,
        "verdict": verdict,
    }
