"""Up to which rate of the links a method is faster than the better baseline."""

import math
from collections.abc import Sequence


def break_even(rates: Sequence[float], speed_ups: Sequence[float]) -> float:
    """The rate at which the speed-up falls to 1, interpolated on logarithmic axes.

    It is 0 if the method is faster at no rate, and infinite if it is faster at the highest rate. If the
    speed-up falls to 1 several times, the last time counts.

    Args:
        rates: in ascending order.
        speed_ups: at these rates, above 0.
    """
    if speed_ups[-1] > 1:
        return math.inf
    faster = [place for place, speed_up in enumerate(speed_ups) if speed_up > 1]
    if not faster:
        return 0.0
    last = faster[-1]
    (low, high), (above, below) = rates[last : last + 2], map(math.log, speed_ups[last : last + 2])
    return low * (high / low) ** (above / (above - below))
