"""The columns of a summary that say how long methods take, from the table of times."""

import math

import pandas as pd

from thinwire.report.savings import BLOCK

_FOUND = {"speed_up": "step_speed_up", "seconds_to_target": "seconds_to_target"}
TIMED = ["time_from", "time_nodes", "target_accuracy_percent", *_FOUND.values()]


def with_times(table: pd.DataFrame, times: pd.DataFrame) -> pd.DataFrame:
    """Add the columns `TIMED`; they are empty where no time is known.

    Times of a block's own runs are preferred. Otherwise they are simulated, on one cluster with one compute
    profile: the first that has the block's number of nodes, or else the first.

    Args:
        table: from `summarise`.
        times: the table of times; rows of links that do not have their own rates are left out.
    """
    if times.empty:
        return table.assign(**dict.fromkeys(TIMED, math.nan))
    times = times[times.own_rate.astype(bool)]
    return pd.concat([_with_place(block, times) for _, block in table.groupby(BLOCK, sort=False)])


def _with_place(block: pd.DataFrame, times: pd.DataFrame) -> pd.DataFrame:
    """Add the columns to the rows of one block."""
    first = block.iloc[0]
    there = times[
        (times.dataset == first.dataset) & (times.model == first.model) & (times.workers == first.workers)
    ]
    alike = there.nodes == first.nodes
    ranked = [there[(there.kind == first.kind) & alike], there[(there.kind == "simulated") & alike]]
    candidates = next((rows for rows in ranked if len(rows)), there[there.kind == "simulated"])
    if candidates.empty:
        return block.assign(**dict.fromkeys(TIMED, math.nan))
    place = candidates.iloc[0]
    same = (candidates.cluster == place.cluster) & (candidates.profile == place.profile)
    found = candidates[same & (candidates.nodes == place.nodes)].set_index("method")
    columns = {new: block.method.map(found[old]).astype(float) for old, new in _FOUND.items()}
    return block.assign(
        time_from=_origin(place),
        time_nodes=place.nodes,
        target_accuracy_percent=place.target_accuracy_percent,
        **columns,
    )


def _origin(place: pd.Series) -> str:
    """How the times of a place came about: `simulated (ethernet_1g, here)`."""
    where = ", ".join(name for name in (place.cluster, place.profile) if name)
    return f"{place.kind} ({where})" if where else str(place.kind)
