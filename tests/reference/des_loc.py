"""DES-LOC: local steps; weights and each moment of the optimizer are averaged at periods of their own.

Source read: the first author's code, github.com/Iacob-Alexandru-Andrei/torchft at commit 84604cb,
torchft/local_sgd.py: _ParameterFragment, _OptimizerStateFragment and DesLoc (lines 175 to 580). Of Iacob et
al., arXiv:2505.22549, nothing was read.

torch's names of states are exp_avg and exp_avg_sq for Adam, momentum_buffer for SGD. The code takes all
states with more than one entry, in alphabetical order, and a period for each.

Where u is averaged and v is not, a worker whose own gradients of an entry were all 0 has v = 0 there, and
divides the mean u by Adam's epsilon. The weight then jumps by up to lr u / 1e-8, here as in the code.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from .optimizers import AdamW, Muon
from .sgd import Run, Tensors, copy_tensors, mean_over_workers


def holders(optimizer: Any, moment: str) -> list[tuple[Any, str]]:
    """Return where an optimizer keeps its "first" or "second" moments: objects and names of attributes.

    The first are the mean gradient of AdamW, the buffer of SGD, and both in Muon; the second are the mean
    squares of AdamW.
    """
    if isinstance(optimizer, AdamW):
        return [(optimizer, "mean" if moment == "first" else "square")]
    if isinstance(optimizer, Muon):
        own = [(optimizer, "buffer")] if moment == "first" else []
        return own + holders(optimizer.adamw, moment)
    return [(optimizer, "buffer")] if moment == "first" else []


def average_moments(optimizer_of: Sequence[Any], moment: str) -> None:
    """Replace these moments of all workers by their mean.

    Source: _OptimizerStateFragment, prepare_sync and perform_sync.
    """
    for places in zip(*(holders(optimizer, moment) for optimizer in optimizer_of), strict=True):
        mean = mean_over_workers([getattr(owner, name) for owner, name in places])
        for owner, name in places:
            setattr(owner, name, copy_tensors(mean))


def train(run: Run, period: int, first_period: int, second_period: int) -> Iterator[Tensors]:
    """Yield, for every step, the mean over the workers of their weights after that step.

    At every step t from 1, each worker k steps with its own gradient g_k at its own weights w_k:

        w_k, u_k, v_k = Optimizer_k(w_k, u_k, v_k, g_k, lr(t))
        w_k = (1/K) sum_j w_j    if `period` divides t
        u_k = (1/K) sum_j u_j    if `first_period` divides t
        v_k = (1/K) sum_j v_j    if `second_period` divides t

    Source: DesLoc._step_post_hook, lines 533 to 546: each fragment counts the steps since its last mean, and
    means follow a step.
    Scalars, such as the number of steps in Adam's bias correction, are not averaged: they are equal.
    """
    weights_of, optimizer_of = run.replicas(), run.optimizers()
    for step in range(run.steps):
        done = step + 1
        gradients = run.gradients(step, weights_of)
        weights_of = run.stepped(step, optimizer_of, weights_of, gradients)
        if done % period == 0:
            mean = mean_over_workers(weights_of)
            weights_of = [copy_tensors(mean) for _ in range(run.workers)]
        if done % first_period == 0:
            average_moments(optimizer_of, "first")
        if done % second_period == 0:
            average_moments(optimizer_of, "second")
        yield mean_over_workers(weights_of)
