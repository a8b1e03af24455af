"""Dion: orthonormal updates of low rank from a momentum that stays on its worker.

Source read: the authors' code, github.com/microsoft/dion at commit 0a059a4.

* dion/dion_reference.py: Dion.step (lines 258 to 326), _get_dion_param_config (429 to 433),
  _init_opt_state_dion (543 to 590), dion_update (614 to 687), power_iteration (690 to 730) and
  fix_all_zero_or_nan (920 to 942).
* dion/dion_simple.py, dion_update (18 to 64), for one worker, without the transposed form. It was compared
  with this reference on random gradients, once.

Of Ahn et al., "Dion: Distributed Orthonormalized Updates", arXiv:2504.05295, nothing was read.

The code takes matrices only. Own: a weight with more than two dimensions is the matrix [C_out, all others].
"""

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from .power_sgd import as_matrix, orthonormal
from .sgd import Run, Tensors, mean_over_workers

EPSILON = 1e-8


def low_rank(rows: int, columns: int, rank: int | float) -> int:
    """Return r: this rank, or with a fraction this share of the smaller side, rounded up; at most that side.

    Source: _init_opt_state_dion, lines 544 to 547, with rank_multiple_of 1; dion_simple.py, line 218.
    """
    smaller = min(rows, columns)
    return min(rank if isinstance(rank, int) else math.ceil(rank * smaller), smaller)


def scale_of_authors(rows: int, columns: int) -> float:
    """Return the factor of the learning rate: sqrt(fan_out / fan_in).

    Source: dion_update, lines 675 to 677.
    """
    return math.sqrt(rows / columns)


def power_iteration(momenta: Sequence[np.ndarray], q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return P and R, with P R^T near the mean of the momenta.

        P = orth((1/K) sum_k M_k Q);  R = (1/K) sum_k M_k^T P

    Where all momenta are zero P is zero and R is Q.

    Source: power_iteration with one iteration and compressed_all_reduce, and fix_all_zero_or_nan. The code's
    randomised Cholesky QR is a QR decomposition, too, which is unique up to the signs of columns.
    """
    if all(not np.any(momentum) for momentum in momenta):
        return np.zeros((momenta[0].shape[0], q.shape[1])), q
    p = orthonormal(sum(momentum @ q for momentum in momenta) / len(momenta))
    return p, sum(momentum.T @ p for momentum in momenta) / len(momenta)


def train(
    run: Run,
    hidden: Sequence[bool],
    rank: int | float,
    first: Callable[[int, int, int], np.ndarray],
    mu: float = 0.95,
    transpose: bool = True,
    scale: Callable[[int, int], float] = scale_of_authors,
) -> Iterator[Tensors]:
    """Yield, for every step, the mean over the workers of their weights after that step.

    For every hidden tensor, as a matrix w, with worker k's gradient g_k and its momentum M_k, zero at first:

        M_k = M_k + g_k
        P, R = power_iteration(M, Q)
        M_k = M_k - (1 - mu) * P R^T
        Q = R with each column divided by its norm + 1e-8
        w = (1 - lr * weight_decay) * w - lr * scale * P Q^T

    Each worker takes off the *mean* approximation, as in the code. Only the mean of the M_k decides what
    happens, so the worker's own one would give the same weights. For the same reason it changes nothing that
    the code averages the gradient itself where the factors are not smaller (lines 258 to 262, and 552).

    All other tensors step with the mean gradient and the recipe's optimizer.

    Source: dion_update, with the code's AdamW or Lion for other tensors.

    Args:
        run: what to train; the weight decay of hidden tensors.
        hidden: which tensors are Dion's.
        rank: see `low_rank`.
        first: Q before the first step, of (tensor, rows, columns).
        mu: of the momentum.
        transpose: whether a matrix with fewer rows than columns is transposed in the iteration (line 433).
        scale: of (rows, columns) of a matrix.
    """
    weights_of, momentum_of, optimizer_of = run.replicas(), run.zeros(), run.optimizers()
    factor: dict[int, np.ndarray] = {}

    for step in range(run.steps):
        lr = run.learning_rate(step)
        before = weights_of[0]
        gradients = run.gradients(step, weights_of)
        aggregate = mean_over_workers(gradients)
        # The state of a tensor does not depend on the others, so the optimizer may also step the hidden ones.
        weights_of = run.stepped(step, optimizer_of, weights_of, [aggregate] * run.workers)

        for index, weight in enumerate(before):
            if not hidden[index]:
                continue
            rows, columns = as_matrix(weight).shape
            flip = transpose and rows < columns
            momenta = []
            for momentum, gradient in zip(momentum_of, gradients, strict=True):
                momentum[index] = momentum[index] + gradient[index]
                matrix = as_matrix(momentum[index])
                momenta.append(matrix.T if flip else matrix)
            if index not in factor:
                r = low_rank(rows, columns, rank)
                factor[index] = first(index, rows if flip else columns, r)

            p, right = power_iteration(momenta, factor[index])
            approximation = (p @ right.T).T if flip else p @ right.T
            for momentum in momentum_of:
                momentum[index] = momentum[index] - (1 - mu) * approximation.reshape(weight.shape)
            factor[index] = right / (np.sqrt(np.sum(right**2, axis=0, keepdims=True)) + EPSILON)

            update = (p @ factor[index].T).T if flip else p @ factor[index].T
            stepped = (1 - lr * run.weight_decay) * weight - lr * scale(rows, columns) * update.reshape(
                weight.shape
            )
            for weights in weights_of:
                weights[index] = stepped
        yield mean_over_workers(weights_of)
