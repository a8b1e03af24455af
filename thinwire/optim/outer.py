"""The outer step of DiLoCo: Nesterov's momentum on what all workers have changed together since the last one.

    D = theta - x, with x the mean of the workers' weights;  m <- mu m + D;  theta <- theta - lr (D + mu m)

Source: Douillard et al., "DiLoCo: Distributed Low-Communication Training of Language Models" (arXiv
2311.08105). This is the step of torch's SGD with `nesterov=True` for the gradient D, which the authors use.
"""

import torch
from torch import Tensor


def step(theta: list[Tensor], velocity: list[Tensor], mean: list[Tensor], lr: float, momentum: float) -> None:
    """Change the global weights and their momentum in place.

    At a rate of 1 without momentum, theta becomes `mean` to the bit.

    Args:
        theta: the global weights, of any shapes.
        velocity: m, of the same shapes; zeros before the first step.
        mean: x, of the same shapes.
        lr: the outer learning rate.
        momentum: mu, from 0 to below 1.
    """
    change = torch._foreach_sub(theta, mean)
    torch._foreach_mul_(velocity, momentum)
    torch._foreach_add_(velocity, change)
    # Not theta - lr D: the difference and its sum with theta are rounded, the end of a lerp is not.
    torch._foreach_lerp_(theta, mean, lr)
    if momentum:
        torch._foreach_add_(theta, velocity, alpha=-lr * momentum)
