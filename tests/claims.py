"""Claims and runs for tests."""

from typing import Any

import pandas as pd

from tests import summary
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
    place = {
        "suite": "claims/invented",
        "workers": 8,
        "cluster": None,
        "evaluated_images": 10_000,
        "steps": 10,
    }
    sent = (push, 100.0, push, push)
    return summary.run(method, repetition, accuracy=accuracy, bytes_=sent, **place | more)


def runs(*rows: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame(rows)
