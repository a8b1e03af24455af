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
        of_baseline = there[(there.method == baseline) & (there.status == "done")]
        target = TARGET_OF_BASELINE * _last(of_baseline).mean()
        runs = [run for _, run in there[there.method == method].groupby("repetition")]
        if not runs or np.isnan(target):
            return target, np.nan
        return target, float(np.median([_steps(run, target) for run in runs]))

    return look_up


def _last(curves: pd.DataFrame) -> pd.Series:
    """The accuracy at the end of each run."""
    return curves.sort_values("step").groupby("repetition").test_accuracy_percent.last()


def _steps(run: pd.DataFrame, target: float) -> float:
    """The step of the first evaluation that reaches the target."""
    return float(min(run.step[run.test_accuracy_percent >= target], default=np.inf))
