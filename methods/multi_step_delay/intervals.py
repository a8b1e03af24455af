"""The interval: how many steps a round has, from how far the training loss has fallen."""

import math

import torch

from thinwire.optim import adacomm

# The loss at the beginning is the mean over so many steps at the end of the warm-up.
STEPS_OF_FIRST_LOSS = 50


def first_interval(config):
    """Steps of the first round after the warm-up."""
    return _within_limits(config.interval, config)


def state_at_start(config):
    """What the other functions here keep in the method's memory."""
    return {"interval": first_interval(config), "highest_lr": 0.0, "first_losses": [], "losses": []}


def note_first_loss(run, memory, config):
    """At the end of the warm-up: the loss and the learning rate to which later ones are compared.

    Without a warm-up, they are those of the first step. The workers exchange their losses, which takes four
    bytes.
    """
    steps_left = max(1, config.warmup_steps) - run.step
    if 0 < steps_left <= STEPS_OF_FIRST_LOSS:
        memory["first_losses"].append(run.loss.clone())
    if steps_left == 1:
        loss = torch.stack(memory["first_losses"]).mean()
        run.world.mean([loss], kind="control").wait()
        memory["first_loss"] = loss  # a tensor, so that this step does not wait for a GPU
        memory["highest_lr"] = memory["last_lr"] = run.lr
        memory["first_losses"] = []


def adapt(memory, config, lr, loss):
    """After an epoch with this loss: a new interval, if `adapt_every_epochs` have passed since the last."""
    memory["highest_lr"] = max(memory["highest_lr"], lr)
    memory["losses"].append(loss)
    if len(memory["losses"]) < config.adapt_every_epochs:
        return
    mean = sum(memory["losses"]) / len(memory["losses"])
    memory["losses"] = []
    memory["interval"] = _adapted(memory, config, lr, mean)
    memory["last_lr"] = lr


def _adapted(memory, config, lr, loss):
    interval = memory["interval"]
    highest = memory["highest_lr"] if config.lr_term else lr
    wanted = adacomm.interval(config.interval, loss, float(memory["first_loss"]), lr, highest)
    if wanted is None:
        return interval
    if config.shrink is not None and wanted >= interval and lr == memory["last_lr"]:
        wanted = math.ceil(config.shrink * interval)
    return _within_limits(wanted, config)


def _within_limits(interval, config):
    return min(max(interval, config.min_interval), config.max_interval)
