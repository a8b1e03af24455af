"""The numbers of the break-even map: speed-ups at each rate of the links, and break-even rates."""

import math

import pandas as pd

from thinwire.report.break_even import faster_between

_PLACE = ["dataset", "model", "workers", "nodes", "cluster", "profile"]


def speed_ups(simulated: pd.DataFrame) -> pd.DataFrame:
    """One row for each place, method and rate; only of places that were simulated at several rates."""
    rows = simulated[simulated.speed_up.notna()]
    rows = rows.drop_duplicates([*_PLACE, "method", "rate_gbit_per_second"])
    several = rows.groupby(_PLACE).rate_gbit_per_second.transform("nunique") > 1
    columns = [*_PLACE, "method", "baseline", "rate_gbit_per_second", "speed_up"]
    return rows[several][columns].sort_values(
        [*_PLACE, "rate_gbit_per_second"], kind="stable", ignore_index=True
    )


def break_even(rows: pd.DataFrame) -> pd.DataFrame:
    """For each place and method the rates between which it is faster than the better baseline.

    Where it never is, both are missing. `from_gbit_per_second` is 0 if it is faster at the lowest rate, and
    `to_gbit_per_second` infinite if it is faster at the highest.

    Args:
        rows: of `speed_ups`.
    """
    found = []
    for place, group in rows.groupby([*_PLACE, "method"], sort=False):
        between = faster_between(list(group.rate_gbit_per_second), list(group.speed_up))
        found.append((*place, *(between or (math.nan, math.nan))))
    names = [*_PLACE, "method", "from_gbit_per_second", "to_gbit_per_second"]
    return pd.DataFrame(found, columns=names)
