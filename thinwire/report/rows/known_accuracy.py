"""What the study knows of the accuracy of a method, and which method is the fastest among those.

It is known from the comparisons with SSGD of the suite `laptop` in the committed results, whatever results a
table or figure is about.
"""

from collections.abc import Collection
from enum import StrEnum
from functools import cache

import pandas as pd

from thinwire.base.names import REFERENCE
from thinwire.plugins import ROOT
from thinwire.report.report_files import fixed, with_minus
from thinwire.report.statistics.paired import Verdict

STUDY = "laptop"
_COMPARISONS = ROOT / REFERENCE / "tables" / STUDY / "comparisons.csv"
_BASELINE = "ssgd"
# They average the gradients that SSGD averages; the contract checks that they end at its weights.
_AVERAGE_THE_SAME = ("hsgd", "ps_sgd")


class Known(StrEnum):
    """What is known of the accuracy of a method beside that of SSGD."""

    SAME = "same"  # by construction, or equivalent in every comparison
    CHANGED = "changed"  # different in at least one comparison
    INCONCLUSIVE = "inconclusive"  # compared, and none of the two
    UNKNOWN = "unknown"  # never compared


def known(label: str) -> Known:
    """What is known of the method with this label; of SSGD, all variants count as the same."""
    if label == _BASELINE or label.startswith(f"{_BASELINE}_") or label in _AVERAGE_THE_SAME:
        return Known.SAME
    comparisons = of_methods().get(label)
    if comparisons is None:
        return Known.UNKNOWN
    verdicts = set(comparisons.verdict)
    if Verdict.DIFFERENT in verdicts:
        return Known.CHANGED
    return Known.SAME if verdicts == {Verdict.NO_EFFECT} else Known.INCONCLUSIVE


def in_words(label: str) -> str:
    """The verdicts on the method with this label, and the range of the mean differences."""
    comparisons = of_methods().get(label)
    if comparisons is None:
        return Known.UNKNOWN
    differences = comparisons.difference_mean_points
    counts = comparisons.verdict.value_counts()
    verdicts = ", ".join(f"{counts[v]} {v.value.replace('_', ' ')}" for v in Verdict if v in counts)
    least, most = (_signed(difference) for difference in (differences.min(), differences.max()))
    return f"{verdicts} ({least} to {most} points)"


def _signed(points: float) -> str:
    text = with_minus(points, 1)
    return f"+{text}" if float(fixed(points, 1)) > 0 else text


@cache
def of_methods() -> dict[str, pd.DataFrame]:
    """The comparisons of each method, by its label; none where only the engine is installed."""
    if not _COMPARISONS.exists():
        return {}
    return {str(label): own for label, own in pd.read_csv(_COMPARISONS).groupby("method")}


# What the rows that are compared with each other have in common.
PLACE = ["suite", "model", "accelerator", "workers", "nodes", "rate_gbit_per_second", "latency_seconds"]


def fastest(rows: pd.DataFrame, states: Collection[Known] = tuple(Known)) -> pd.DataFrame:
    """A row for each place, with the method whose step is the shortest there.

    Args:
        rows: as `simulated_file.read_times` gives them; places without a baseline are left out.
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
