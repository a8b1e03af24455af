"""What the study knows of the accuracy of a method: the comparisons with SSGD of the suite `laptop`.

They are those of the committed results, whatever results a table or figure is about.
"""

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
