"""Whether runs reach a target in as many epochs as a reference allows.

A method that reaches it in fewer epochs may train something else, such as an easier task. MLPerf Training
refuses such results by a one-sided t test at 5 % (its reference convergence points).
"""

from enum import StrEnum

import numpy as np
import pandas as pd

from thinwire.statistics.paired import LEVEL, compare
from thinwire.statistics.verdict import FEWEST_PAIRS


class Convergence(StrEnum):
    """What tables say about the epochs to a target."""

    REFERENCE = "reference"  # these runs are the reference
    SUSPICIOUS = "suspicious"  # fewer epochs than the reference allows
    LATE = "late"  # more epochs, or a miss where the reference has none
    PLAUSIBLE = "plausible"  # neither
    CANNOT_BE_TOLD = "cannot_be_told"  # too few pairs, or misses on both sides


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
        return Convergence.CANNOT_BE_TOLD
    if np.isinf(epochs[both]).any():
        missed = np.isinf(reference[both]).any()
        return Convergence.CANNOT_BE_TOLD if missed else Convergence.LATE
    difference = compare(epochs[both], reference[both].replace(np.inf, trained_epochs))
    if difference.p_different / 2 >= LEVEL:  # one-sided
        return Convergence.PLAUSIBLE
    return Convergence.SUSPICIOUS if difference.mean < 0 else Convergence.LATE
