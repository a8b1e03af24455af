"""When a run has diverged: a loss or a weight is no longer finite."""

import math
from collections.abc import Sequence

from torch import Tensor


class Diverged(Exception):
    """A loss or a weight is no longer finite. A result, not an error."""

    def __init__(self, step: int) -> None:
        super().__init__(f"the loss or a weight is not finite after step {step}")
        self.step = step


def require_finite_losses(steps: Sequence[int], losses: Sequence[Sequence[float]]) -> None:
    """The losses of all workers are finite numbers.

    Args:
        steps: counted from 1.
        losses: of each step, a loss for each worker.

    Raises:
        Diverged: naming the first step with one that is not.
    """
    for step, row in zip(steps, losses):
        if not all(map(math.isfinite, row)):
            raise Diverged(step)


def require_finite_weights(step: int, weights: Sequence[Tensor]) -> None:
    """The weights after a step are finite numbers.

    Raises:
        Diverged: one of them is not.
    """
    if not all(bool(weight.isfinite().all()) for weight in weights):
        raise Diverged(step)
