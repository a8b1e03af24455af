"""Claims and runs for tests."""

import math
from typing import Any

import pandas as pd

from thinwire.config.claims import Claim

CONTENT = {
    "id": "002-a",
    "publication": "MP2",
    "claim": "It sends less.",
    "method": "thin",
    "against": "ssgd",
    "metric": "push",
    "direction": "less",
    "statistic": "exact_bytes",
    "scope": "mechanism",
    "may_say": "`{method}` pushes {estimate} % less than `{against}`.",
}
ACCURACY = {
    "same": {"metric": "accuracy", "direction": "same", "statistic": "tost"},
    "not_less": {"metric": "accuracy", "direction": "not_less", "statistic": "non_inferiority"},
    "more": {"metric": "accuracy", "direction": "more", "statistic": "paired_t"},
}
STEP = {"metric": "seconds_of_a_step", "statistic": "ratio"}
TO_TARGET = {"metric": "seconds_to_target", "statistic": "ratio"}


def claim(**changes: Any) -> Claim:
    """A claim about bytes, with other values for some keys."""
    return Claim.model_validate(CONTENT | changes)


def points(value: float) -> dict[str, Any]:
    """A margin of accuracy."""
    return {"margin": {"value": value, "unit": "points"}}


def run(
    method: str, repetition: int, push: float = 100.0, accuracy: float = 90.0, **more: Any
) -> dict[str, Any]:
    """A row of summary.csv. Pull is 100 bytes."""
    row = {
        "suite": "claims/invented",
        "dataset": "digits",
        "model": "cnn",
        "method": method,
        "workers": 8,
        "nodes": 2,
        "repetition": repetition,
        "kind": "inprocess",
        "cluster": None,
        "status": "done",
        "reason": None,
        "test_accuracy_percent": accuracy,
        "evaluated_images": 10_000,
        "steps": 10,
        "payload_push_bytes": push,
        "payload_pull_bytes": 100.0,
        "wire_sent_bytes": push,
        "between_nodes_bytes": push,
        "preparation_payload_push_bytes": math.nan,
        "preparation_payload_pull_bytes": math.nan,
    }
    return row | more


def runs(*rows: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame(rows)
