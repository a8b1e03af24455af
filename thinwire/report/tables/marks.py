"""Which values of a column are marked as the best and the second of their block.

A mark claims an order, so a column is marked only if its order is known. Simulated speed-ups and bytes are
exact. Accuracies are ordered by the verdicts of their comparisons with the baseline, and by nothing else.
"""

import math
from collections.abc import Callable
from enum import Enum

import pandas as pd

from thinwire.report.tables.numbers import percent, ratio, to_target


class Mark(Enum):
    """How a value is shown."""

    NONE = 0
    BEST = 1
    SECOND = 2


def of_savings(block: pd.DataFrame) -> list[Mark]:
    """Marks of the bytes saved, with the preparation counted; what saves nothing has none."""
    saved = _shown(block.total_with_prepared_reduction_percent, percent).where(_sound(block))
    return [mark if value > 0 else Mark.NONE for mark, value in zip(_highest(saved), saved)]


def of_speed_ups(block: pd.DataFrame) -> list[Mark]:
    """Marks of speed-ups; none if they are measured, because nothing says how certain those are."""
    exact = block.time_from.astype("string").str.startswith("simulated").fillna(False)
    return _highest(_shown(block.step_speed_up, ratio).where(_sound(block) & exact))


def of_seconds_to_target(block: pd.DataFrame, baseline: str) -> list[Mark]:
    """Marks of seconds to the target; they depend on accuracies, so none if a verdict is missing."""
    if not _all_told(block, baseline):
        return [Mark.NONE] * len(block)
    finite = block.seconds_to_target.replace(math.inf, math.nan)
    return _highest(-_shown(finite, to_target).where(_sound(block)))


def of_accuracies(block: pd.DataFrame, baseline: str) -> list[Mark]:
    """Marks of accuracies; none if one comparison cannot be told.

    Methods above the baseline come first, then the baseline and what equals it. The order among the methods
    of a group is not tested, so all get the mark of their group.
    """
    if not _all_told(block, baseline):
        return [Mark.NONE] * len(block)
    level = (block.verdict == "same") | (block.method == baseline)
    above = (block.verdict == "different") & (block.difference_mean_points > 0)
    group = level.astype(float).where(~above, 2.0)
    marks = _highest(group.where(_sound(block)))
    return [mark if value > 0 else Mark.NONE for mark, value in zip(marks, group)]


def _shown(values: pd.Series, text: Callable[[float], str]) -> pd.Series:
    """The numbers that a reader sees: equal texts have equal marks."""
    return pd.to_numeric(values.map(text))


def _sound(block: pd.DataFrame) -> pd.Series:
    """Rows whose runs are all done, and none at chance level."""
    failed = block[["diverged", "timeout", "failed", "skipped"]].sum(axis=1)
    return (block.done > 0) & (failed == 0) & ~(block.at_chance_level > 0)


def _all_told(block: pd.DataFrame, baseline: str) -> bool:
    """Does every row with a result have a verdict that says something?"""
    others = block[(block.method != baseline) & (block.done > 0)]
    return len(others) > 0 and bool(others.verdict.isin(["different", "same"]).all())


def _highest(values: pd.Series) -> list[Mark]:
    """The highest and the second highest of several values; missing and infinite ones do not count."""
    finite = values.where(values.abs() < float("inf"))
    distinct = sorted(finite.dropna().unique(), reverse=True)
    if len(distinct) < 2:
        return [Mark.NONE] * len(values)
    marks = dict(zip(distinct, (Mark.BEST, Mark.SECOND)))
    return [marks.get(value, Mark.NONE) for value in finite]
