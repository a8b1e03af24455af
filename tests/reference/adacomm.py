"""Local SGD whose period follows the training loss (AdaComm).

Sources read:

* Of Wang and Joshi, "Adaptive Communication Strategies to Achieve the Best Error-Runtime Trade-off in
  Local-Update SGD", MLSys 2019, arXiv:1810.08313, the abstract and the beginning of the introduction.
  No code of the authors was found.
* PaddlePaddle's version, github.com/PaddlePaddle/Paddle,
  python/paddle/distributed/fleet/meta_optimizers/localsgd_optimizer.py (class AdaptiveLocalSGDOptimizer),
  in a stored copy of 2020 or later whose commit is not known.

So what is under the root follows Paddle. The rest is a reconstruction, and is marked as such.
"""

import math
from collections.abc import Iterator

from .sgd import Run, Tensors, copy_tensors, mean_over_workers


def next_period(
    period: int,
    first_period: int,
    max_period: int,
    loss: float,
    first_loss: float,
    learning_rate: float,
    first_learning_rate: float,
    previous_learning_rate: float,
) -> int:
    """Return the period tau that follows `period`.

    With F the epoch's mean loss, lr its last learning rate, F0 the loss at the start of the run, lr0 the
    last learning rate of the first epoch, and tau_0 the first period:

        candidate = ceil(tau_0 * sqrt(lr0 / lr * F / F0))

    The candidate is ceil(period / 2) instead if it is not below the period and the learning rate is not
    below that of the end of the previous epoch. It is clipped to [1, max_period].

    The period stays if F or the value under the root is not finite, or if that value is negative. The
    product is rounded to 9 decimals, so that a whole number stays that number.

    Source: Paddle, communicate_avg_loss: lr_0 * avg_loss / (lr * loss_0) under the root, rounded up and
    clipped, there to [1, 16]. Three things are reconstructed. tau_0 stands before the root (in Paddle under
    it), so that the loss and the rate of the start give tau_0. The period is halved, which Paddle does
    not do. Invalid numbers leave it as it is.
    """
    if not math.isfinite(loss) or first_loss == 0 or learning_rate == 0:
        return period
    ratio = first_learning_rate / learning_rate * loss / first_loss
    if not math.isfinite(ratio) or ratio < 0:
        return period

    candidate = math.ceil(round(first_period * math.sqrt(ratio), 9))
    if candidate >= period and learning_rate >= previous_learning_rate:
        candidate = math.ceil(period / 2)
    return min(max(candidate, 1), max_period)


def train(run: Run, period: int, max_period: int) -> Iterator[Tensors]:
    """Yield, for every step, the mean over the workers of their weights after that step.

    At every step, with worker k's gradient g_k at its own weights w_k:

        w_k = Optimizer_k(w_k, g_k(w_k), lr(t))
        w_k = (1/K) * sum_j w_j     if at least tau steps have been taken since the last average,
                                    this one included, and after the last step

    Each worker has its own momentum buffer, which is never averaged. tau is tau_0 = `period` in the
    first epoch. At the end of every epoch, after the last step's average, next_period() gives the next
    tau from the epoch's mean training loss and last learning rate. F0 is the mean over the workers of
    their losses at the first step, at the initial weights.

    Source: Paddle's AdaptiveLocalSGDOptimizer, minimize_impl. `initialize` takes loss_0, the mean over
    the workers, at step 1, before any update. begin_localsgd averages when as many steps as the period
    have passed since the last average. Paddle adapts at every average, with that step's mean loss. That
    here an epoch has one period, and its mean loss counts, is a reconstruction. Paddle also takes lr_0
    at step 1. Here it is that of the end of the first epoch, so that a shorter warm-up of the learning
    rate does not count as an increase. The last average is the benchmark's own.
    """
    weights_of, optimizer_of = run.replicas(), run.optimizers()
    tau, steps_since_average = period, 0
    losses_of_epoch: list[float] = []
    first_loss = 0.0
    first_learning_rate: float | None = None
    previous_learning_rate = 0.0

    for step in range(run.steps):
        lr = run.learning_rate(step)
        losses_of_epoch += run.losses(step, weights_of)
        if step == 0:
            first_loss = sum(losses_of_epoch) / run.workers  # Paddle, initialize: loss_0

        weights_of = run.stepped(step, optimizer_of, weights_of, run.gradients(step, weights_of))
        steps_since_average += 1
        if steps_since_average >= tau or step == run.steps - 1:  # Paddle, begin_localsgd
            mean_weights = mean_over_workers(weights_of)
            weights_of = [copy_tensors(mean_weights) for _ in range(run.workers)]
            steps_since_average = 0
        yield mean_over_workers(weights_of)

        if (step + 1) % run.steps_per_epoch == 0:
            if first_learning_rate is None:
                first_learning_rate = previous_learning_rate = lr
            mean_loss = sum(losses_of_epoch) / len(losses_of_epoch)
            rates = (lr, first_learning_rate, previous_learning_rate)
            tau = next_period(tau, period, max_period, mean_loss, first_loss, *rates)
            losses_of_epoch, previous_learning_rate = [], lr
