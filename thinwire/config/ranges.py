"""Ranges from which a tuning draws, each on the scale on which its values matter."""

import math
from collections.abc import Callable
from dataclasses import dataclass

# A best value in this share of its range at either end may lie beyond the range.
EDGE = 0.05

_Scale = tuple[Callable[[float], float], Callable[[float], float]]  # onto the scale, and back
LOG: _Scale = (math.log, math.exp)
# Momentum m averages over 1 / (1 - m) steps: this number has the logarithmic scale.
LOG_OF_STEPS: _Scale = (lambda m: -math.log(1 - m), lambda x: 1 - math.exp(-x))
LINEAR: _Scale = (float, float)


@dataclass(frozen=True)
class Range:
    """From `low` to `high`."""

    low: float
    high: float
    scale: _Scale = LOG

    def at(self, share: float) -> float:
        """The value at a share of the range from 0 to 1, with four digits; whole if both ends are."""
        onto, back = self.scale
        low, high = onto(self.low), onto(self.high)
        value = float(f"{back(low + share * (high - low)):.4g}")
        return round(value) if isinstance(self.low, int) and isinstance(self.high, int) else value

    def edge(self, value: float) -> str | None:
        """The end of the range, `low` or `high`, at which the value is; None if it is inside."""
        onto, _ = self.scale
        low, high = onto(self.low), onto(self.high)
        share = (onto(value) - low) / (high - low)
        return "low" if share <= EDGE else "high" if share >= 1 - EDGE else None
