"""Synchronous SGD: the gradients are averaged over the workers at every step.

Sources read: torch 2.13, torch/distributed/algorithms/ddp_comm_hooks/post_localSGD_hook.py. Its first phase
is this method: an all-reduce of the gradients' mean over all workers before the optimizer's step.
"""

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
) -> list[Tensors]:
    """Return, for every step, the mean over the workers of their weights after that step.

    At every step t, with worker k's gradient g_k at its weights w_k:

        G = (1/K) * sum_k g_k(w_k)
        w_k = Optimizer_k(w_k, G, lr(t))

    Source: post_localSGD_hook while iter is below start_localSGD_iter; the optimizer is sgd.py's.
    """
    weights_of = [copy_tensors(weights) for _ in range(workers)]
    optimizer_of = [Optimizer(momentum, weight_decay, nesterov) for _ in range(workers)]
    history: list[Tensors] = []

    for step in range(steps):
        gradients = []
        for worker in range(workers):
            own = gradient(worker, step, copy_tensors(weights_of[worker]))
            gradients.append(copy_tensors(own))
        mean_gradient = mean_over_workers(gradients)

        for worker in range(workers):
            weights_of[worker] = optimizer_of[worker].step(
                weights_of[worker], mean_gradient, learning_rate(step)
            )

        history.append(mean_over_workers(weights_of))

    return history
