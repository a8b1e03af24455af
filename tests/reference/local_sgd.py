"""Local SGD, after a first phase of synchronous SGD (post-local SGD).

Sources read:

* The authors of post-local SGD: github.com/epfml/LocalSGD-Code, distributed_code/pcode/optim/local_sgd.py
  (class LocalSGD) at commit 8bfc7dc, pcode/create_scheduler.py and pcode/distributed_running_cv.py at
  commit 63aacc0.
* torch 2.13: torch/distributed/algorithms/ddp_comm_hooks/post_localSGD_hook.py, and class
  PeriodicModelAverager in torch/distributed/algorithms/model_averaging/averagers.py.

The two differ; train() says where this reference differs from each.
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

    Local steps are counted from the switch; the first is number 1. Each worker has its own momentum
    buffer, which is carried over the switch and never averaged. With momentum_policy "reset" it is set
    to zero whenever the weights are averaged; with "keep" it is not changed.

    Source of the first phase: torch's hook averages gradients, so that the buffers stay equal. There,
    LocalSGD averages weights at every step, and every worker's buffer sees only its own gradients.

    Source of the second phase: LocalSGD.step and torch's averager step first, average then, and do not
    change the buffers. After which steps they average is the benchmark's: H, 2H, ... from the switch, the
    first being number 1. torch averages after numbers 1, H + 1, 2H + 1, ... of the same count. LocalSGD
    averages after the steps of the whole run whose number, counted from 0, H divides. The average after
    the last step and momentum_policy "reset" are the benchmark's own.
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

        # LocalSGD: epoch_ < turn_on_local_step_from, where epoch_ is local_index / batches per epoch
        is_synchronous = step < switch_epoch * steps_per_epoch
        if is_synchronous:
            # post_localSGD_hook while iter < start_localSGD_iter
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
            # LocalSGD: the consensus less the mean of its differences to the weights, which is their mean
            mean_weights = mean_over_workers(weights_of)
            for worker in range(workers):
                weights_of[worker] = copy_tensors(mean_weights)
                if momentum_policy == "reset":
                    optimizer_of[worker].reset()

        history.append(mean_over_workers(weights_of))

    return history
