"""Local SGD, after a first phase of synchronous SGD (post-local SGD)."""

from collections.abc import Sequence

import numpy as np

from .sgd import Gradient, LearningRate, Optimizer, Tensors, copy_tensors, mean_over_workers


def train(
    weights: Sequence[np.ndarray],
    gradient: Gradient,
    workers: int,
    steps: int,
    learning_rate: LearningRate,
    momentum: float,
    weight_decay: float,
    nesterov: bool,
    period: int,
    switch_epoch: float,
    steps_per_epoch: int,
    momentum_policy: str,
) -> list[Tensors]:
    """Return, for every step, the mean over the workers of their weights after that step.

    Steps t < switch_epoch * steps_per_epoch are synchronous (ssgd.py). At every later step, with
    worker k's gradient g_k at its own weights w_k and H the period:

        w_k = Optimizer_k(w_k, g_k(w_k), lr(t))
        w_k = (1/K) * sum_j w_j     after local steps number H, 2H, 3H, ... and after the last step

    Local steps are counted from the switch, the first is number 1. Each worker's momentum buffer
    stays its own, is carried over the switch, and is never averaged; with momentum_policy "reset"
    it is set to zero whenever the weights are averaged, with "keep" it is left alone.

    Source: Lin et al., "Don't Use Large Mini-Batches, Use Local SGD", ICLR 2020,
    arXiv:1808.07217 (post-local SGD); Stich, "Local SGD Converges Fast
    and Communicates Little", ICLR 2019, arXiv:1805.09767.
    """
    if period < 1:
        raise ValueError(f"period must be at least 1, not {period}")
    if momentum_policy not in ("keep", "reset"):
        raise ValueError(f"unknown momentum_policy {momentum_policy!r}")

    weights_of = [copy_tensors(weights) for _ in range(workers)]
    optimizer_of = [Optimizer(momentum, weight_decay, nesterov) for _ in range(workers)]
    local_steps = 0
    history: list[Tensors] = []

    for step in range(steps):
        gradients = []
        for worker in range(workers):
            own = gradient(worker, step, copy_tensors(weights_of[worker]))
            gradients.append(copy_tensors(own))

        is_synchronous = step < switch_epoch * steps_per_epoch
        if is_synchronous:
            mean_gradient = mean_over_workers(gradients)
            gradients = [mean_gradient for _ in range(workers)]
        else:
            local_steps += 1

        for worker in range(workers):
            weights_of[worker] = optimizer_of[worker].step(
                weights_of[worker], gradients[worker], learning_rate(step)
            )

        ends_period = local_steps % period == 0
        is_last = step == steps - 1
        if not is_synchronous and (ends_period or is_last):
            mean_weights = mean_over_workers(weights_of)
            for worker in range(workers):
                weights_of[worker] = copy_tensors(mean_weights)
                if momentum_policy == "reset":
                    optimizer_of[worker].reset()

        history.append(mean_over_workers(weights_of))

    return history
