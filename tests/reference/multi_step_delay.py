"""Multi-step delay parameter update: gradients are summed over rounds of several local steps.

Named after Ju et al., Journal of Harbin Institute of Technology, 2025, of which no text could be read for
this file. Sources read:

* Of Xu et al., "SSD-SGD: Communication sparsification for distributed deep learning training",
  arXiv:2012.05396, the abstract: a warm-up stage, a stage of delayed steps, and local updates that use the
  global gradient.
* For the interval: the sources of adacomm.py.

Every formula is a reconstruction, except what is under the root in adapt().
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

from .sgd import Optimizer, Run, Tensors, copy_tensors, mean_over_workers, zeros_like

# The reference loss is the mean over at most so many steps at the end of the warm-up.
STEPS_OF_FIRST_LOSS = 50


class Message(NamedTuple):
    """A round's sums of gradients, averaged over the workers, and what landing them needs."""

    mean_sum: Tensors
    length: int
    learning_rate: float
    weights_of: list[Tensors]


def adapt(
    interval: int,
    first_interval: int,
    loss: float,
    first_loss: float,
    learning_rate: float,
    first_learning_rate: float,
    previous_learning_rate: float,
    min_interval: int,
    max_interval: int,
    lr_term: bool,
    shrink: float | None,
) -> int:
    """Return the interval that follows `interval`.

    With F the window's mean loss and F0 the loss, lr0 the learning rate and H0 the interval of
    the beginning:

        candidate = ceil(H0 * sqrt(lr0 / lr * F / F0))      without lr0 / lr if not lr_term

    If shrink is given, the candidate is not below the interval, and the learning rate is the one
    of the previous adaptation (of the beginning, at the first one), the candidate is
    ceil(shrink * interval) instead. Clipped to [min_interval, max_interval].

    The interval stays if F <= 0, or if F or the value under the root is not a finite number. The
    product is rounded to 9 decimals, so that a whole number stays that number.

    Source: what stands under the root is that of adacomm.py. The rest is a reconstruction.
    """
    ratio = ratio_to_first(loss, first_loss, learning_rate, first_learning_rate, lr_term)
    if ratio is None:
        return interval

    candidate = math.ceil(round(first_interval * math.sqrt(ratio), 9))
    if shrink is not None and candidate >= interval and learning_rate == previous_learning_rate:
        candidate = math.ceil(shrink * interval)
    return min(max(candidate, min_interval), max_interval)


def ratio_to_first(
    loss: float, first_loss: float, learning_rate: float, first_learning_rate: float, lr_term: bool
) -> float | None:
    """Return lr0 / lr * F / F0, or F / F0 if not lr_term; None where that makes no sense."""
    if not math.isfinite(loss) or loss <= 0:
        return None
    if not math.isfinite(first_loss) or first_loss <= 0:
        return None
    ratio = loss / first_loss
    if lr_term:
        if learning_rate <= 0:
            return None
        ratio = first_learning_rate / learning_rate * ratio
    return ratio if math.isfinite(ratio) else None


def train(
    run: Run,
    warmup_steps: int,
    interval: int,
    min_interval: int = 1,
    max_interval: int = 16,
    adapt_every_epochs: int = 1,
    lr_term: bool = True,
    shrink: float | None = None,
    in_round: float = 0.2,
    at_sync: float = 1.0,
    delay: int = 0,
    local_momentum: bool = False,
) -> Iterator[Tensors]:
    """Yield, for every step, the global weights z after that step, as far as sums have landed.

    Worker k has local weights x_k. The global weights z, the global buffer v and ghat are the same for
    all workers. A round has h steps: the interval at the round's beginning, or the steps left in the run
    if they are fewer. A_k is zero at the round's beginning, and ghat is zero until the first sum lands.
    At every step of a round, with worker k's gradient g_k:

        d_k = g_k(x_k) + weight_decay * x_k
        A_k = A_k + d_k
        x_k = x_k - lr(t) * ((1 - in_round) * d_k + in_round * ghat)

    At the round's end, (1/K) * sum_k A_k is sent. When such a mean sum A, sent after h steps with
    learning rate lr at the last of them, lands:

        v = momentum * v + A
        z = z - lr * v                      or z - lr * (A + momentum * v) with nesterov
        ghat = A / h

    local_momentum: worker k keeps u_k, which is zero before the first step. At every step

        u_k = momentum * u_k + d_k

    and u_k, or d_k + momentum * u_k with nesterov, takes the place of d_k in the sum and in the local update.
    The global update then has no momentum.

    delay 0: it lands at once, and then x_k = z + (1 - at_sync) * (x_k - z).

    delay 1: it lands at the end of the next round, before that one's sum is sent, and then
    x_k = x_k + at_sync * (z - e_k), with e_k what x_k was when it was sent. After the last step
    everything that has been sent lands.

    The first warmup_steps steps are rounds of one step with delay 0 and at_sync 1.

    The interval starts as H0 = `interval`, clipped. At the end of every epoch that ends after the
    warm-up, the epoch's mean loss is added to a window. Once the window holds adapt_every_epochs losses,
    their mean F gives the next interval (adapt()), and the window is emptied. F0 is the mean loss over
    the last min(50, warmup_steps) steps of the warm-up. Without a warm-up, it is the loss at the first
    step. lr0 is the highest of the learning rates at that step and at the ends of the later epochs. So a
    warm-up of the learning rate does not count as an increase. A new interval holds from the next round on.

    Source: reconstruction (see above).
    """
    global_weights = copy_tensors(run.weights)
    # Weight decay is in the sums already, and so is local momentum.
    momentum = run.momentum
    global_optimizer = Optimizer(0.0 if local_momentum else momentum, 0.0, run.nesterov)
    velocity_of, sum_of, local_of = run.zeros(), run.zeros(), run.replicas()
    last_gradient = zeros_like(run.weights)
    in_flight: Message | None = None
    current_interval = min(max(interval, min_interval), max_interval)
    round_length = steps_of_round = 0
    loss_of: list[list[float]] = []
    window: list[float] = []
    first_loss = math.nan
    first_learning_rate = previous_learning_rate = 0.0

    def land(message: Message) -> None:
        nonlocal global_weights, last_gradient
        global_weights = global_optimizer.step(global_weights, message.mean_sum, message.learning_rate)
        last_gradient = [a / message.length for a in message.mean_sum]

    for step in range(run.steps):
        is_warmup = step < warmup_steps
        lr = run.learning_rate(step)
        # Reconstruction: a round, and in the warm-up rounds of one step (SSD-SGD has a warm-up stage).
        if steps_of_round == 0:
            round_length = 1 if is_warmup else min(current_interval, run.steps - step)
            sum_of = run.zeros()

        loss_of.append(run.losses(step, local_of))
        for worker, own in enumerate(run.gradients(step, local_of)):
            local = local_of[worker]
            decayed = [g + run.weight_decay * x for g, x in zip(own, local, strict=True)]
            if local_momentum:
                # The benchmark's own.
                u = [momentum * u + d for u, d in zip(velocity_of[worker], decayed, strict=True)]
                velocity_of[worker] = u
                decayed = [d + momentum * u for d, u in zip(decayed, u, strict=True)] if run.nesterov else u
            sum_of[worker] = [a + d for a, d in zip(sum_of[worker], decayed, strict=True)]
            # Reconstruction: SSD-SGD uses the global gradient for the local update; the mixture is ours.
            local_of[worker] = [
                x - lr * ((1 - in_round) * d + in_round * ghat)
                for x, d, ghat in zip(local, decayed, last_gradient, strict=True)
            ]
        steps_of_round += 1

        if steps_of_round == round_length:
            steps_of_round = 0
            sent = Message(mean_over_workers(sum_of), round_length, lr, [*local_of])
            # Reconstruction: how a sum lands, at once or a round later, and what the workers take of it.
            if delay == 0 or is_warmup:
                land(sent)
                kept = 0.0 if is_warmup else 1 - at_sync
                local_of = [
                    [z + kept * (x - z) for x, z in zip(local, global_weights, strict=True)]
                    for local in local_of
                ]
            else:
                if in_flight is not None:
                    land(in_flight)
                    local_of = [
                        [
                            x + at_sync * (z - e)
                            for x, z, e in zip(local, global_weights, as_sent, strict=True)
                        ]
                        for local, as_sent in zip(local_of, in_flight.weights_of, strict=True)
                    ]
                in_flight = sent._replace(weights_of=[*local_of])

        if step == run.steps - 1 and in_flight is not None:
            land(in_flight)
        yield copy_tensors(global_weights)

        # Reconstruction: what F0 and lr0 are, and when the interval adapts.
        if step == max(1, warmup_steps) - 1:
            counted = loss_of[-STEPS_OF_FIRST_LOSS:]
            mean_of = [sum(own) / len(counted) for own in zip(*counted)]
            first_loss = sum(mean_of) / run.workers
            first_learning_rate = previous_learning_rate = lr
        if (step + 1) % run.steps_per_epoch == 0 and not is_warmup:
            of_epoch = [one for losses in loss_of[-run.steps_per_epoch :] for one in losses]
            window.append(sum(of_epoch) / len(of_epoch))
            first_learning_rate = max(first_learning_rate, lr)
        if len(window) == adapt_every_epochs:
            rates = (lr, first_learning_rate, previous_learning_rate)
            limits = (min_interval, max_interval, lr_term, shrink)
            mean_loss = sum(window) / len(window)
            current_interval = adapt(current_interval, interval, mean_loss, first_loss, *rates, *limits)
            window, previous_learning_rate = [], lr
