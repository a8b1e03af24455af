"""Invented runs, and the summary that is made of them."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from thinwire.base.learning import CLASSIFICATION
from thinwire.report.rows import comparisons
from thinwire.report.rows.comparisons import with_comparisons
from thinwire.report.rows.quantities import summarise
from thinwire.report.rows.times import with_times
from thinwire.report.tables.about import About

ABOUT = About("Title", "test", ("ssgd",), CLASSIFICATION)
BYTES = ("payload_push_bytes", "payload_pull_bytes", "wire_sent_bytes", "between_nodes_bytes")
OTHER_BYTES = ("wire_received_bytes", "wire_sent_max_bytes", "wire_received_max_bytes")


def run(
    method: str,
    repetition: int,
    status: str = "done",
    accuracy: float | None = 90.0,
    bytes_: Sequence[float | None] = (100, 100, 150, 50),
    **more: Any,
) -> dict[str, Any]:
    """The row of a run in `summary.csv`."""
    row = {
        "dataset": "digits",
        "model": "cnn",
        "workers": 4,
        "nodes": 2,
        "method": method,
        "kind": "inprocess",
        "repetition": repetition,
        "status": status,
        "reason": None,
        "score": accuracy,
        "task": "classification",
        "classes": 10,
        "evaluated_images": 539,
        **dict(zip(BYTES, bytes_)),
        **dict.fromkeys(OTHER_BYTES, bytes_[2]),
        "prepared_from": None,
        "preparation_payload_push_bytes": math.nan,
        "preparation_payload_pull_bytes": math.nan,
        "preparation_seconds": math.nan,
        "train_seconds": math.nan,
        "no_time_because": None,
        "epochs": 12,
    }
    return row | more


def prepared(
    seconds: float = 12.3, push: float = 3e6, pull: float = 2e6, path: str = "digits/cnn/mp2/seed0"
) -> dict[str, Any]:
    """What a preparation sent and took, and its path."""
    return {
        "prepared_from": path,
        "preparation_payload_push_bytes": push,
        "preparation_payload_pull_bytes": pull,
        "preparation_seconds": seconds,
    }


def table_of(
    runs: Sequence[dict[str, Any]], baselines: Sequence[str] = ("ssgd",), times: pd.DataFrame | None = None
) -> pd.DataFrame:
    """The summary of these runs with all its columns."""
    frame = pd.DataFrame(runs)
    compared = comparisons.comparisons(frame, baselines[0], CLASSIFICATION)
    known = pd.DataFrame() if times is None else times
    return with_times(with_comparisons(summarise(frame, baselines, CLASSIFICATION), compared), known)
