"""A local step of a worker: its direction, and how its weights x move."""

from typing import Any

import torch
from torch import Tensor

from thinwire import Run

from .options import Options


def state_at_start(run: Run, config: Options) -> dict[str, list[Tensor]]:
    """What `step` keeps in the method's memory."""
    state = {"sum": [torch.zeros_like(weight) for weight in run.weights]}  # A
    if config.local_momentum:
        state["local_velocity"] = [torch.zeros_like(weight) for weight in run.weights]  # u
    return state


def step(run: Run, memory: dict[str, Any], config: Options) -> None:
    """Add this worker's direction to the sum, and step in it and in the last global direction."""
    beta, options = config.in_round, run.optimizer.param_groups[0]
    direction = list(torch._foreach_add(run.gradients, run.weights, alpha=options["weight_decay"]))
    if config.local_momentum:
        direction = _with_momentum(memory["local_velocity"], direction, options)
    torch._foreach_add_(memory["sum"], direction)
    torch._foreach_mul_(direction, 1 - beta)
    torch._foreach_add_(direction, memory["mean"], alpha=beta)
    torch._foreach_add_(run.weights, direction, alpha=-run.lr)


def _with_momentum(velocity: list[Tensor], direction: list[Tensor], options: dict[str, Any]) -> list[Tensor]:
    """u <- m u + d; gives u, or d + m u with Nesterov."""
    momentum = options["momentum"]
    torch._foreach_mul_(velocity, momentum)
    torch._foreach_add_(velocity, direction)
    if options["nesterov"]:
        return list(torch._foreach_add(direction, velocity, alpha=momentum))
    return [own.clone() for own in velocity]
