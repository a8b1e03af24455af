"""After how many steps the learning runs reach the target accuracy.

The target is a share of the baseline's mean accuracy at the end, on the same data set, model and workers.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd

from thinwire.report.result_names import FEWEST_REPETITIONS
from thinwire.report.target_accuracy import TARGET_OF_BASELINE, mean_final_accuracy

# Where the runs were learned.
_PLACE = ["dataset", "model", "workers", "nodes"]

StepsToTarget = Callable[[tuple[str, str, int, int], str], tuple[float, float]]


def steps_to_target(curves: pd.DataFrame, baseline: str) -> StepsToTarget:
    """Make a function that looks up the target in percent and the steps to it.

    It takes a place (data set, model, workers, nodes) and a method. Where no run has as many nodes, those
    with as many workers count. The steps are a median over the repetitions. A run that never reaches the
    target has infinitely many. Both numbers are missing (NaN) where the baseline or the method has no run.
    They are missing in a suite with one repetition, too, because what one seed learns may be chance.

    Args:
        curves: one row for each evaluation of each run.
        baseline: label of the method whose accuracy sets the target.
    """
    if curves.repetition.nunique() < FEWEST_REPETITIONS:
        curves = curves[:0]
    every = dict(iter(curves.groupby(_PLACE)))

    def look_up(place: tuple[str, str, int, int], method: str) -> tuple[float, float]:
        there = every.get(place)
        if there is None:
            alike = [group for other, group in every.items() if other[:3] == place[:3]]
            if not alike:
                return np.nan, np.nan
            there = alike[0]
        target = TARGET_OF_BASELINE * mean_final_accuracy(there[there.method == baseline])
        runs = there[there.method == method]
        if runs.empty or np.isnan(target):
            return target, np.nan
        steps = reaching(runs, target).step.reindex(runs.repetition.unique(), fill_value=np.inf)
        return target, float(steps.median())

    return look_up


def reaching(curves: pd.DataFrame, target: float) -> pd.DataFrame:
    """The first evaluation of each run whose accuracy is the target or more, with the repetition as index.

    A run that misses the target has no row.

    Args:
        curves: of the runs of one method in one place.
        target: in percent.
    """
    reached = curves[curves.test_accuracy_percent >= target]
    return reached.sort_values("step").drop_duplicates("repetition").set_index("repetition")
