"""The words of comparisons. No other file says that something is better, worse, the same or faster."""

import math

from thinwire.statistics.paired import LEVEL, POWER, Comparison
from thinwire.statistics.verdict import FEWEST_PAIRS, Judged


def of_accuracy(judged: Judged) -> str:
    """One phrase about the method's accuracy beside the baseline's, in percentage points."""
    difference = judged.comparison
    if difference.n < FEWEST_PAIRS:
        return _too_few(difference.n)
    margin = f"the same within {difference.margin:g} points"
    if judged.differs:
        side = "better" if difference.mean > 0 else "worse"
        size = f"{side} by {_points(abs(difference.mean))}"
        return f"{size}, but {margin}" if judged.within_margin else size
    if judged.within_margin:
        return margin if difference.sd or difference.mean else "the same in every pair"
    return _not_found(difference.n, f"a difference of {_points(difference.detectable)}")


def of_loss(difference: Comparison, unit: str = "points") -> str:
    """One phrase about whether the method loses no more than the margin (one-sided non-inferiority)."""
    if difference.n < FEWEST_PAIRS:
        return _too_few(difference.n)
    if difference.p_not_inferior < LEVEL:
        return f"no loss of {difference.margin:g} {unit} or more"
    return f"cannot be told whether the loss is below {difference.margin:g} {unit}"


def of_speed(judged: Judged) -> str:
    """One phrase about the method's time beside the baseline's.

    Args:
        judged: differences of the logarithms of seconds, the baseline's minus the method's.
    """
    difference = judged.comparison
    if difference.n < FEWEST_PAIRS:
        return _too_few(difference.n)
    if judged.differs:
        times = math.exp(abs(difference.mean))
        return f"{times:.2f} times " + ("faster" if difference.mean > 0 else "slower")
    return _not_found(difference.n, f"a factor of {math.exp(difference.detectable):.2f}")


def _points(size: float) -> str:
    return f"{size:.2f} points"


def _not_found(pairs: int, size: str) -> str:
    return f"cannot be told: {pairs} pairs find {size} with a probability of {100 * POWER:g} %"


def _too_few(pairs: int) -> str:
    have = f"{pairs} {'pair' if pairs == 1 else 'pairs'}"
    return f"cannot be told: {have}, and {FEWEST_PAIRS} are needed at least"
