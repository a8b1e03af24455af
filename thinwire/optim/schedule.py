"""The learning rate at each step, by the schedule of a recipe; `plateau` follows the training loss."""

import math

from thinwire.optim.recipe import Recipe, Schedule


def learning_rate(recipe: Recipe, workers: int, step: int, steps_per_epoch: int) -> float:
    """Return the learning rate of step `step` (counted from 0); it is above 0 at every step of the run.

    The schedule `plateau` depends on the losses, too: `Plateau.scale` is to be multiplied with its rate.
    """
    optimizer, schedule = recipe.optimizer, recipe.schedule
    peak = optimizer.lr
    if optimizer.lr_reference_batch:
        peak *= recipe.batch_per_worker(workers) * workers / optimizer.lr_reference_batch
    warmup = round(schedule.warmup_epochs * steps_per_epoch)
    if step < warmup:
        return peak * (step + 1) / warmup
    done = (step - warmup) / max(1, recipe.epochs * steps_per_epoch - warmup)
    if schedule.name == "cosine":
        return peak * (1 + math.cos(math.pi * done)) / 2
    if schedule.name == "polynomial":
        return peak * (1 - done) ** schedule.power
    if schedule.name == "exponential":
        return peak * schedule.factor ** (step // steps_per_epoch)
    if schedule.name == "step":
        drops = sum(step >= milestone * steps_per_epoch for milestone in schedule.milestones)
        return peak * schedule.factor**drops
    return peak


class Plateau:
    """What is left of the learning rate, which falls whenever the training loss has stopped falling.

    Source: `torch.optim.lr_scheduler.ReduceLROnPlateau` (mode min, threshold mode rel, no cooldown, no lowest
    rate). This has the same rule without an optimizer, so that its state is three numbers.
    """

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._lowest = math.inf
        self._epochs_since_lowest = 0
        self.scale = 1.0
        """The factor of the rate, from 1 down."""

    def end_epoch(self, loss: float) -> None:
        """Take in the mean loss of an epoch."""
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
