"""How numbers are written in tables. Missing ones are empty."""

import math

import pandas as pd

from thinwire.report.tables.summarise import STATUSES


def megabytes(value: float) -> str:
    """Bytes in units of 10^6."""
    return "" if pd.isna(value) else f"{value / 1e6:.3f}"


def percent(value: float) -> str:
    """A reduction in percent; 99.96 is not rounded to 100."""
    text = f"{value:.2f}" if 99 < value < 100 else f"{value:.1f}"
    return "" if pd.isna(value) else "0.0" if text == "-0.0" else text


def ratio(value: float) -> str:
    """A speed-up, or another ratio."""
    return "" if pd.isna(value) else f"{value:.2f}"


def whole_seconds(value: float) -> str:
    """Seconds of a preparation."""
    return "" if pd.isna(value) else f"{value:.0f}"


def runs_that_share(row: pd.Series) -> str:
    """How many runs use one preparation: the least and the most."""
    least, most = row.preparation_runs_min, row.preparation_runs_max
    return "" if pd.isna(most) else f"{most:g}" if least == most else f"{least:g} to {most:g}"


def to_target(seconds: float) -> str:
    """Seconds to the target."""
    if math.isinf(seconds):
        return "not reached"
    return "" if pd.isna(seconds) else f"{seconds:.3f}" if seconds < 10 else f"{seconds:.1f}"


def accuracy(row: pd.Series) -> str:
    """Mean ± standard deviation, the number of runs, and how many have no sound result."""
    rest = [f"{row[status]} {status}" for status in STATUSES if row[status] and status != "done"]
    if not row.done:
        return ", ".join(rest)
    if row.at_chance_level > 0:
        rest.insert(0, f"{row.at_chance_level:g} at chance level")
    spread = f" ± {row.accuracy_sd_percent:.2f}" if row.done > 1 else ""
    return f"{row.accuracy_mean_percent:.2f}{spread} ({row.done})" + "".join(f", {part}" for part in rest)


def training(row: pd.Series) -> str:
    """Mean ± standard deviation of the seconds of training."""
    mean, sd = row.train_seconds, row.train_seconds_sd
    return "" if pd.isna(mean) else f"{mean:.1f}" + ("" if pd.isna(sd) else f" ± {sd:.1f}")


def epochs(row: pd.Series) -> str:
    """The epochs that were trained, and the number that they stand for."""
    virtual = row.virtual_epochs
    return str(row.epochs) if pd.isna(virtual) else f"{row.epochs} for {virtual:g}"


def workers(row: pd.Series) -> str:
    """`8 on 2 nodes`."""
    return f"{row.workers} on {row.nodes} nodes" if row.nodes > 1 else str(row.workers)
