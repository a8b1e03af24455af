"""Decides when a run has diverged: as soon as a loss or a weight is not finite."""

import math
from collections.abc import Sequence

from torch import Tensor


class Diverged(Exception):
    """A loss or a weight is not finite. That is a result, not an error."""

    def __init__(self, step: int) -> None:
        super().__init__(f"the loss or a weight is not finite after step {step}")
        self.step = step


def require_finite_losses(steps: Sequence[int], losses: Sequence[Sequence[float]]) -> None:
    """Require that the losses of all workers are finite.

    Args:
        steps: counted from 1.
        losses: for each step, the loss of each worker.

    Raises:
        Diverged: a loss is not finite; the error names the first such step.
    """
    for step, row in zip(steps, losses):
        if not all(map(math.isfinite, row)):
            raise Diverged(step)


def require_finite_weights(step: int, weights: Sequence[Tensor]) -> None:
    """Require that the weights after a step are finite.

    Raises:
        Diverged: a weight is not finite.
    """
    if not all(bool(weight.isfinite().all()) for weight in weights):
        raise Diverged(step)
