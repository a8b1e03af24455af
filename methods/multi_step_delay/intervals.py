"""The interval: how many steps a round has, from how far the training loss has fallen."""

import math
from typing import Any

import torch

from thinwire import Run
from thinwire.optim import adacomm

from .options import Options, first_interval, within_limits

# The loss at the beginning is the mean over so many steps at the end of the warm-up.
STEPS_OF_FIRST_LOSS = 50


def state_at_start(config: Options) -> dict[str, Any]:
    """What the other functions here keep in the method's memory."""
    return {"interval": first_interval(config), "highest_lr": 0.0, "first_losses": [], "losses": []}


def note_first_loss(run: Run, memory: dict[str, Any], config: Options) -> None:
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


def adapt(memory: dict[str, Any], config: Options, lr: float, loss: float) -> None:
    """After an epoch with this loss: a new interval, if `adapt_every_epochs` have passed since the last."""
    memory["highest_lr"] = max(memory["highest_lr"], lr)
    memory["losses"].append(loss)
    if len(memory["losses"]) < config.adapt_every_epochs:
        return
    mean = sum(memory["losses"]) / len(memory["losses"])
    memory["losses"] = []
    memory["interval"] = _adapted(memory, config, lr, mean)
    memory["last_lr"] = lr


def _adapted(memory: dict[str, Any], config: Options, lr: float, loss: float) -> int:
    interval = memory["interval"]
    highest = memory["highest_lr"] if config.lr_term else lr
    wanted = adacomm.interval(config.interval, loss, float(memory["first_loss"]), lr, highest)
    if wanted is None:
        return interval
    if config.shrink is not None and wanted >= interval and lr == memory["last_lr"]:
        wanted = math.ceil(config.shrink * interval)
    return within_limits(wanted, config)
