"""Between which rates of the links a method is faster than the better baseline."""

import math
from collections.abc import Sequence


def faster_between(rates: Sequence[float], speed_ups: Sequence[float]) -> tuple[float, float] | None:
    """The rates between which the speed-up is above 1; None if it never is.

    Where the speed-up passes 1, the *break-even* rate is interpolated on logarithmic axes. The lower end is 0
    if the method is faster at the lowest rate, and the upper end is infinite if it is faster at the highest.
    If there are several such ranges, the one with the highest rates counts.

    Args:
        rates: in ascending order.
        speed_ups: at these rates, above 0.
    """
    faster = [speed_up > 1 for speed_up in speed_ups]
    if not any(faster):
        return None
    last = first = len(faster) - 1 - faster[::-1].index(True)
    while first and faster[first - 1]:
        first -= 1
    low = _crossing(rates, speed_ups, first - 1) if first else 0.0
    high = _crossing(rates, speed_ups, last) if last + 1 < len(rates) else math.inf
    return low, high


def _crossing(rates: Sequence[float], speed_ups: Sequence[float], place: int) -> float:
    """The rate between this one and the next at which the speed-up is 1."""
    (low, high), (before, after) = rates[place : place + 2], map(math.log, speed_ups[place : place + 2])
    return float(low * (high / low) ** (before / (before - after)))
