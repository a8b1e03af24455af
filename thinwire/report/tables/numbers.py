"""How numbers are written in the texts of tables. Missing ones are empty."""

import math

import pandas as pd

from thinwire.report.tables.summarise import STATUSES
from thinwire.statistics.rounding import fixed


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


def accuracy(row: pd.Series) -> str:
    """Mean ± standard deviation, the number of runs, and how many have no sound result."""
    rest = [f"{row[status]} {status}" for status in STATUSES if row[status] and status != "done"]
    if not row.done:
        return ", ".join(rest)
    if row.at_chance_level > 0:
        rest.insert(0, f"{row.at_chance_level:g} at chance level")
    mean, spread = fixed(row.accuracy_mean_percent, 2), fixed(row.accuracy_sd_percent, 2)
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


def workers(row: pd.Series) -> str:
    """`8 on 2 nodes`."""
    return f"{row.workers} on {row.nodes} nodes" if row.nodes > 1 else str(row.workers)
