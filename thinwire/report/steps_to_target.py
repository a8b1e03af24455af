"""After how many steps the learning runs reach the target accuracy.

The target is a share of the baseline's mean accuracy at the end, on the same data set, model and workers.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd

TARGET_OF_BASELINE = 0.99
# Where the runs were learned.
_PLACE = ["dataset", "model", "workers", "nodes"]

StepsToTarget = Callable[[tuple[str, str, int, int], str], tuple[float, float]]


def steps_to_target(curves: pd.DataFrame, baseline: str) -> StepsToTarget:
    """Make a function that looks up the target in percent and the steps to it.

    It takes a place (data set, model, workers, nodes) and a method. Where no run has as many nodes, those
    with as many workers count. The steps are a median over the repetitions. A run that never reaches the
    target has infinitely many. Both numbers are missing (NaN) where the baseline or the method has no run.

    Args:
        curves: one row for each evaluation of each run.
        baseline: label of the method whose accuracy sets the target.
    """
    every = dict(iter(curves.groupby(_PLACE)))

    def look_up(place: tuple[str, str, int, int], method: str) -> tuple[float, float]:
        there = every.get(place)
        if there is None:
            alike = [group for other, group in every.items() if other[:3] == place[:3]]
            if not alike:
                return np.nan, np.nan
            there = alike[0]
        target = TARGET_OF_BASELINE * mean_final_accuracy(there[there.method == baseline])
        runs = [run for _, run in there[there.method == method].groupby("repetition")]
        if not runs or np.isnan(target):
            return target, np.nan
        return target, float(np.median([_steps(run, target) for run in runs]))

    return look_up


def mean_final_accuracy(curves: pd.DataFrame) -> float:
    """The mean of the accuracies in percent with which the runs that are done end; NaN without such a run."""
    done = curves[curves.status == "done"]
    return float(done.sort_values("step").groupby("repetition").test_accuracy_percent.last().mean())


def reaching(run: pd.DataFrame, target: float) -> pd.DataFrame:
    """The first evaluation of a run whose accuracy is the target or more, or no row."""
    return run[run.test_accuracy_percent >= target].sort_values("step").head(1)


def _steps(run: pd.DataFrame, target: float) -> float:
    """The step of the first evaluation that reaches the target."""
    return float(min(reaching(run, target).step, default=np.inf))
