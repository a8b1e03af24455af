"""An invariant that a record breaks."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Broken(NamedTuple):
    """An invariant and how a file breaks it; `what` is a clause."""

    invariant: str  # its name in docs/provenance.md
    file: str
    what: str

    def __str__(self) -> str:
        return f"{self.what} (invariant: {self.invariant})"


def is_whole(value: float) -> bool:
    """Is this a whole number, but for the rounding of a division and a product?"""
    return math.isfinite(value) and abs(value - round(value)) <= max(1e-6, 4 * math.ulp(value))


def falls(values: Sequence[float | None]) -> Iterator[int]:
    """The places at which a value is below the one before it, or is no number."""
    before = 0.0
    for place, value in enumerate(values):
        if value is None or not value >= before:
            yield place
        before = before if value is None else value
