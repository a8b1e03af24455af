"""Speed-ups, how often a method is near the best, and convergence in as many epochs as a reference allows.

A method that reaches a target in fewer epochs may train something else, such as an easier task. MLPerf
Training refuses such results by a one-sided t test at 5 % (its reference convergence points).
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

import numpy as np
import pandas as pd

from thinwire.report.statistics.paired import FEWEST_PAIRS, LEVEL, Comparison, compare


class Convergence(StrEnum):
    """What tables say about the epochs to a target."""

    REFERENCE = "reference"  # these runs are the reference
    SUSPICIOUS = "suspicious"  # fewer epochs than the reference allows
    LATE = "late"  # more epochs, or a miss where the reference has none
    PLAUSIBLE = "plausible"  # neither
    INCONCLUSIVE = "inconclusive"  # too few pairs, or misses on both sides


def convergence(epochs: pd.Series, reference: pd.Series, trained_epochs: float) -> Convergence:
    """Compare epochs to a target with those of the reference, in pairs of the same repetition.

    Args:
        epochs: of each run until it reaches the target, with the repetition as index; a miss is infinite.
        reference: of the runs of the reference, likewise.
        trained_epochs: that a run of the reference has in all. A miss of the reference counts as
            reached after these, so that it makes no method suspicious.
    """
    both = epochs.index.intersection(reference.index)
    if len(both) < FEWEST_PAIRS:
        return Convergence.INCONCLUSIVE
    if np.isinf(epochs[both]).any():
        missed = np.isinf(reference[both]).any()
        return Convergence.INCONCLUSIVE if missed else Convergence.LATE
    difference = compare(epochs[both], reference[both].replace(np.inf, trained_epochs), MARGIN)
    if difference.p_different / 2 >= LEVEL:  # one-sided
        return Convergence.PLAUSIBLE
    return Convergence.SUSPICIOUS if difference.mean < 0 else Convergence.LATE


def faster_baseline(seconds: Mapping[str, float], baselines: Sequence[str]) -> str | None:
    """The label of the baseline with the fewest seconds, the first of several; None: none has a time.

    Args:
        seconds: of a step, by the label of the method. Of several runs it is the geometric mean, as in the
            speed-up.
        baselines: labels.
    """
    timed = [label for label in baselines if label in seconds]
    return min(timed, key=lambda label: seconds[label], default=None)


# Kinds of runs that have times of their own. A simulated time repeats exactly, so it has a ratio and no test.
TIMED = ("measured", "emulated")
# Of a factor in time, for the test of equivalence.
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


# Profiles and scores end at this factor, as in AlgoPerf.
LARGEST_FACTOR = 4.0


def ratios(costs: pd.DataFrame) -> pd.DataFrame:
    """Each cost over the smallest of its cell: 1 for the best, infinite for a miss.

    In a cell that every method misses, all ratios are infinite.

    Args:
        costs: one row for each cell and one column for each method, such as the bytes to a target. They are 0
            or more; a miss is infinite. NaN: the method has no run there; its profile leaves the cell out.
    """
    best = costs.min(axis=1)
    of_best = costs.div(best.where(best > 0), axis=0).where(np.isfinite(costs), np.inf)
    return of_best.fillna(np.inf).mask(costs.eq(best, axis=0) & np.isfinite(costs), 1.0).where(costs.notna())


def profile(ratios: pd.DataFrame, factors: Sequence[float]) -> pd.DataFrame:
    """The share of cells in which a method is within a factor of the best.

    Factors are rows, and methods are columns.
    """
    shares = {factor: (ratios <= factor).astype(float).where(ratios.notna()).mean() for factor in factors}
    return pd.DataFrame(shares).T.rename_axis("factor")


def score(ratios: pd.DataFrame) -> pd.Series:
    """The mean of each method's profile between the factors 1 and 4; 1 for the best of every cell."""
    # The integral of a step that rises at the ratio.
    return ((LARGEST_FACTOR - ratios.clip(upper=LARGEST_FACTOR)) / (LARGEST_FACTOR - 1)).mean()
