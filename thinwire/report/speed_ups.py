"""The table `speed_ups.csv`: measured and emulated times, compared in pairs with the fastest baseline."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from thinwire.report import table_file
from thinwire.report.savings import CELL
from thinwire.statistics import words
from thinwire.statistics.speed import TIMED, compare_speed
from thinwire.statistics.verdict import Judged, judge

COLUMNS = (
    *CELL,
    "cluster",
    "method",
    "kind",
    "against",
    "n",
    "speed_up",
    "speed_up_low",
    "speed_up_high",
    "p_different",
    "p_different_holm",
    "detectable_factor",
    "words",
)
_OF_THE_FASTEST = {
    **dict.fromkeys(("speed_up", "speed_up_low", "speed_up_high"), 1.0),
    **dict.fromkeys(("p_different", "p_different_holm", "detectable_factor"), math.nan),
    "words": "the fastest baseline",
}


def speed_ups(runs: pd.DataFrame, baselines: Sequence[str]) -> pd.DataFrame:
    """One row for each cell, cluster, kind and method with times, in the order of the runs.

    The methods of one cell, cluster and kind are judged together. The fastest baseline has a speed-up of 1 by
    construction, and no test. Simulated times are no runs, so they have
    no row here: they repeat exactly, and a test of them would mean nothing.

    Args:
        runs: one row for each run.
        baselines: labels of the baselines. All methods are compared with the fastest of them.
    """
    place = [*CELL, "cluster", "kind"]
    timed = runs[runs.kind.isin(TIMED)]
    rows: list[dict[str, object]] = []
    for names, here in timed.assign(cluster=timed.cluster.fillna("")).groupby(place, sort=False):
        found = {method: compare_speed(here, method, baselines) for method in dict.fromkeys(here.method)}
        compared = {method: pair for method, pair in found.items() if pair is not None}
        others = [made for method, (against, made) in compared.items() if method != against]
        judged = iter(judge(others))
        for method, (against, made) in compared.items():
            row = _row(next(judged)) if method != against else {**_OF_THE_FASTEST, "n": made.n}
            rows.append({**dict(zip(place, names)), "method": method, "against": against, **row})
    return table_file.with_table_digits(pd.DataFrame(rows, columns=list(COLUMNS)))


def write(table: pd.DataFrame, folder: Path) -> None:
    """Write `speed_ups.csv`."""
    table_file.write(table, folder / "speed_ups.csv")


def _row(judged: Judged) -> dict[str, object]:
    logarithm = judged.comparison
    return {
        "n": logarithm.n,
        "speed_up": np.exp(logarithm.mean),
        "speed_up_low": np.exp(logarithm.low),
        "speed_up_high": np.exp(logarithm.high),
        "p_different": logarithm.p_different,
        "p_different_holm": judged.p_different_holm,
        "detectable_factor": np.exp(logarithm.detectable),
        "words": words.on_speed(judged).words,
    }
