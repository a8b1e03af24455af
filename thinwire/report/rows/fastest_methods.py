"""Which method is the fastest where, among times that are simulated without data."""

from collections.abc import Collection

import pandas as pd

from thinwire.report.rows.known_accuracy import Known, known

# What the rows that are compared with each other have in common.
PLACE = ["suite", "model", "accelerator", "workers", "nodes", "rate_gbit_per_second", "latency_seconds"]


def fastest(rows: pd.DataFrame, states: Collection[Known] = tuple(Known)) -> pd.DataFrame:
    """A row for each place, with the method whose step is the shortest there.

    Args:
        rows: as `thinwire.simulation.times_file.read` gives them; places without a baseline are left out.
        states: the methods that take part are those of whose accuracy this is known, and the baselines.

    Returns:
        The columns of `PLACE`, then `workers_per_node`, `method`, `step_seconds`, `baseline` (the fastest
        one), `gain` (its step over that of the method, at least 1) and `accuracy` (a `Known`).
    """
    accuracy = rows.method.map({label: known(label) for label in rows.method.unique()})
    own = rows.assign(
        workers_per_node=rows.workers // rows.nodes,
        gain=rows.speed_up,
        accuracy=accuracy,
        other=rows.method != rows.baseline,
    )
    own = own[own.baseline.notna() & (own.accuracy.isin(list(states)) | ~own.other)]
    # Where a method takes as long as a baseline, the baseline is named.
    best = own.sort_values([*PLACE, "step_seconds", "other", "method"]).drop_duplicates(PLACE)
    columns = [*PLACE, "workers_per_node", "method", "step_seconds", "baseline", "gain", "accuracy"]
    return best[columns].reset_index(drop=True)
