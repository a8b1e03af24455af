"""The learning rate at each step, by the schedule of a recipe."""

import math

from thinwire.optim.recipe import Recipe


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
