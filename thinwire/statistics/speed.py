"""Measured and emulated times, compared in pairs with the fastest baseline."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from thinwire.statistics.faster_baseline import faster_baseline
from thinwire.statistics.paired import Comparison, compare

# Kinds of runs that have times of their own. A simulated time repeats exactly, so it has a ratio and no test.
TIMED = ("measured", "emulated")
# A factor in time below which two methods are called equally fast.
MARGIN = float(np.log(1.05))


def compare_speed(runs: pd.DataFrame, method: str, baselines: Sequence[str]) -> tuple[str, Comparison] | None:
    """Compare the time of a step with that of the fastest baseline, block by block.

    The runs of a block have the same repetition, and follow each other on the same machines.

    Returns:
        The label of that baseline, and the differences of the logarithms of its seconds and the method's.
        `exp` of their mean is the speed-up. The fastest baseline is compared with itself, so its differences
        are 0. None: there are no times of one of them.

    Args:
        runs: of one cell, with `train_seconds` and `steps`. Those that are not done, are of another kind than
            `TIMED` or have no times are left out.
        method: label of the method.
        baselines: labels of the baselines.
    """
    if "train_seconds" not in runs:
        return None
    done = runs[(runs.status == "done") & runs.kind.isin(TIMED) & runs.train_seconds.notna()]
    logs = {str(label): _log_seconds(group) for label, group in done.groupby("method")}
    seconds = {label: float(np.exp(log.mean())) for label, log in logs.items()}
    against = faster_baseline(seconds, baselines)
    if method not in logs or against is None:
        return None
    return against, compare(logs[against], logs[method], MARGIN)


def _log_seconds(runs: pd.DataFrame) -> pd.Series:
    """The logarithm of the seconds of a step, with the repetition as index."""
    seconds = (runs.train_seconds / runs.steps).to_numpy(float)
    return pd.Series(np.log(seconds), index=runs.repetition.to_numpy())
