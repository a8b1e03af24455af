"""The accuracies that methods have to reach: shares of what the baseline reaches at the end."""

import pandas as pd

# The target of tables with one target.
TARGET_OF_BASELINE = 0.99
# The targets of tables with several: rankings may differ between them.
SHARES = (0.95, 0.98, TARGET_OF_BASELINE)


def mean_final_accuracy(curves: pd.DataFrame) -> float:
    """The mean of the accuracies in percent with which the runs that are done end; NaN without such a run.

    Args:
        curves: of the baseline in one place.
    """
    done = curves[curves.status == "done"]
    return float(done.sort_values("step").groupby("repetition").test_accuracy_percent.last().mean())
