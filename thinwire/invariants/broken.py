"""An invariant that a record breaks."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple


class Broken(NamedTuple):
    """An invariant and how a file breaks it; `what` is a clause."""

    invariant: str  # its name in docs/provenance.md
    file: str
    what: str

    def __str__(self) -> str:
        return f"{self.what} (invariant: {self.invariant})"


# The name of an invariant, and what says how it is broken, in a clause; None if it holds.
Check = tuple[str, Callable[[], str | None]]


# What reading a record may raise that somebody has forged.
NOT_WRITTEN = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


def not_written(error: Exception) -> str:
    """What such an error says about a file, in a clause."""
    return f"it holds what no run writes ({type(error).__name__}: {' '.join(str(error).split())})"


def first_broken(file: str, checks: Iterable[Check]) -> Iterator[Broken]:
    """The first of these invariants that a file breaks; what follows may be broken only because of it."""
    for invariant, find in checks:
        try:
            what = find()
        except NOT_WRITTEN as error:
            what = not_written(error)
        if what:
            yield Broken(invariant, file, what)
            return


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
