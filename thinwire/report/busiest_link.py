"""The busiest link of a run: the worker, and its direction, that carried most bytes."""

import pandas as pd


def busiest_link_bytes(runs: pd.DataFrame) -> pd.Series:
    """For each run, the most bytes that one worker sent, or that one worker received.

    Missing in records of earlier versions, which do not say what was received.

    Args:
        runs: one row for each run, with columns `wire_sent_max_bytes` and `wire_received_max_bytes`.
    """
    return runs[["wire_sent_max_bytes", "wire_received_max_bytes"]].max(axis=1, skipna=False)
