"""The schedule `plateau`: the learning rate falls whenever the training loss has stopped falling.

Source: `torch.optim.lr_scheduler.ReduceLROnPlateau` (mode min, threshold mode rel, no cooldown, no lowest
rate). This has the same rule without an optimizer, so that its state is three numbers.
"""

import math

from thinwire.optim.recipe import Schedule


class Plateau:
    """What is left of the learning rate after the losses so far."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._lowest = math.inf
        self._epochs_since_lowest = 0
        self.scale = 1.0
        """The factor of the rate, from 1 down."""

    def end_epoch(self, loss: float) -> None:
        """Take in the mean loss of an epoch, in nats."""
        self._epochs_since_lowest += 1
        if loss < self._lowest * (1 - self._schedule.threshold):
            self._lowest, self._epochs_since_lowest = loss, 0
        if self._epochs_since_lowest > self._schedule.patience:
            self.scale *= self._schedule.factor
            self._epochs_since_lowest = 0

    def state(self) -> list[float]:
        """Everything that it needs to resume."""
        return [self._lowest, self._epochs_since_lowest, self.scale]

    def load(self, state: list[float]) -> None:
        """Restore a saved state."""
        lowest, since, scale = state
        self._lowest, self._epochs_since_lowest, self.scale = lowest, int(since), scale
