"""Numbers as tables show them, and marks for the best and the second of a block.

A mark claims an order, so a column is marked only if its order is known. Simulated speed-ups and bytes are
exact. Scores are ordered by the verdicts of their comparisons with the baseline, and by nothing else.
"""

import math
from collections.abc import Callable
from enum import Enum

import pandas as pd

from thinwire.report.report_files import fixed
from thinwire.report.rows.quantities import STATUSES


def megabytes(value: float) -> str:
    """Bytes in units of 10^6."""
    return "" if pd.isna(value) else fixed(value / 1e6, 3)


def percent(value: float) -> str:
    """A reduction in percent; 99.96 is not rounded to 100."""
    return "" if pd.isna(value) else fixed(value, 2 if 99 < value < 100 else 1)


def ratio(value: float) -> str:
    """A speed-up, or another ratio."""
    return "" if pd.isna(value) else fixed(value, 2)


def whole_seconds(value: float) -> str:
    """Seconds of a preparation."""
    return "" if pd.isna(value) else fixed(value, 0)


def runs_that_share(row: pd.Series) -> str:
    """How many runs use one preparation: the least and the most."""
    least, most = row.preparation_runs_min, row.preparation_runs_max
    return "" if pd.isna(most) else f"{most:g}" if least == most else f"{least:g} to {most:g}"


def to_target(seconds: float) -> str:
    """Seconds to the target."""
    if math.isinf(seconds):
        return "not reached"
    return "" if pd.isna(seconds) else fixed(seconds, 3 if seconds < 10 else 1)


def milliseconds(seconds: float) -> str:
    """Seconds in units of 10^-3."""
    return "" if pd.isna(seconds) else fixed(seconds * 1e3, 3)


def score(row: pd.Series, digits: int) -> str:
    """Mean ± standard deviation, the number of runs, and how many have no sound result."""
    rest = [f"{row[status]} {status}" for status in STATUSES if row[status] and status != "done"]
    if not row.done:
        return ", ".join(rest)
    if row.at_chance_level > 0:
        rest.insert(0, f"{row.at_chance_level:g} at chance level")
    mean, spread = fixed(row.score_mean, digits), fixed(row.score_sd, digits)
    shown = f"{mean} ± {spread}" if row.done > 1 else mean
    return ", ".join([f"{shown} ({row.done})", *rest])


def training(row: pd.Series) -> str:
    """Mean ± standard deviation of the seconds of training."""
    mean, sd = row.train_seconds, row.train_seconds_sd
    return "" if pd.isna(mean) else fixed(mean, 1) + ("" if pd.isna(sd) else f" ± {fixed(sd, 1)}")


def epochs(row: pd.Series) -> str:
    """The epochs that were trained, and the number that they stand for."""
    virtual = row.virtual_epochs
    return str(row.epochs) if pd.isna(virtual) else f"{row.epochs} for {virtual:g}"


def workers(row: pd.Series, word: str = "") -> str:
    """`8 on 2 nodes`, with a word after the first number."""
    return f"{row.workers}{word} on {row.nodes} nodes" if row.nodes > 1 else f"{row.workers}{word}"


def place(row: pd.Series) -> str:
    """`digits, cnn, 8 workers on 2 nodes`."""
    return f"{row.dataset}, {row.model}, {workers(row, ' worker' if row.workers == 1 else ' workers')}"


class Mark(Enum):
    """How a value is shown."""

    NONE = 0
    BEST = 1
    SECOND = 2


def of_savings(block: pd.DataFrame) -> list[Mark]:
    """Marks of the bytes saved, with the preparation counted; what saves nothing has none."""
    saved = _shown(block.total_with_prepared_reduction_percent, percent).where(_sound(block))
    return _highest(saved, above=0)


def of_speed_ups(block: pd.DataFrame) -> list[Mark]:
    """Marks of speed-ups above 1; none if they are measured, because nothing says how certain those are."""
    exact = block.time_from.astype("string").str.startswith("simulated").fillna(False)
    return _highest(_shown(block.step_speed_up, ratio).where(_sound(block) & exact), above=1)


def of_seconds_to_target(block: pd.DataFrame, baseline: str) -> list[Mark]:
    """Marks of seconds to the target; they depend on scores, so none if a verdict is missing."""
    if not _all_told(block, baseline):
        return [Mark.NONE] * len(block)
    finite = block.seconds_to_target.replace(math.inf, math.nan)
    return _highest(-_shown(finite, to_target).where(_sound(block)))


def of_scores(block: pd.DataFrame, baseline: str) -> list[Mark]:
    """Marks of scores; none if one comparison is inconclusive.

    Methods above the baseline come first, then the baseline and what equals it. The order among the methods
    of a group is not tested, so all get the mark of their group.
    """
    if not _all_told(block, baseline):
        return [Mark.NONE] * len(block)
    level = (block.verdict == "no_effect") | (block.method == baseline)
    above = (block.verdict == "different") & (block.gain_mean > 0)
    group = level.astype(float).where(~above, 2.0)
    return _highest(group.where(_sound(block)), above=0)


def _shown(values: pd.Series, text: Callable[[float], str]) -> pd.Series:
    """The numbers that a reader sees: equal texts have equal marks."""
    return pd.to_numeric(values.map(text))


def _sound(block: pd.DataFrame) -> pd.Series:
    """Rows whose runs are all done, and none at chance level."""
    failed = block[["diverged", "failed", "skipped"]].sum(axis=1)
    return (block.done > 0) & (failed == 0) & ~(block.at_chance_level > 0)


def _all_told(block: pd.DataFrame, baseline: str) -> bool:
    """Does every row with a result have a verdict that says something?"""
    others = block[(block.method != baseline) & (block.done > 0)]
    return len(others) > 0 and bool(others.verdict.isin(["different", "no_effect"]).all())


def _highest(values: pd.Series, above: float = -math.inf) -> list[Mark]:
    """The highest and the second highest of several values; missing and infinite ones do not count.

    One that is not `above` this has no mark.
    """
    finite = values.where(values.abs() < float("inf"))
    distinct = sorted(finite.dropna().unique(), reverse=True)
    if len(distinct) < 2:
        return [Mark.NONE] * len(values)
    marks = dict(zip(distinct, (Mark.BEST, Mark.SECOND)))
    return [marks.get(value, Mark.NONE) if value > above else Mark.NONE for value in finite]
