"""PowerSGD: the mean gradient of a matrix as a product of two thin factors, with error feedback.

Sources read:

* torch 2.13, torch/distributed/algorithms/ddp_comm_hooks/powerSGD_hook.py (powerSGD_hook, _orthogonalize,
  _should_compress).
* github.com/epfml/powersgd at commit 1707180: powersgd/powersgd.py (BasicPowerSGD.aggregate, view_as_matrix),
  for the form with one factor a step.

Both keep as error M_k minus the *mean* approximation. Own: here it is M_k minus the worker's *own* one. The
mean of the errors over the workers is the same, but a worker's error does not drift away from it.
"""

from collections.abc import Callable, Iterator

import numpy as np

from .sgd import Run, Tensors, mean_over_workers


def as_matrix(tensor: np.ndarray) -> np.ndarray:
    """Return the tensor as the matrix [C_out, all others]; vectors have one column.

    Source: epfml, view_as_matrix.
    """
    return tensor.reshape(tensor.shape[0], -1)


def orthonormal(matrix: np.ndarray) -> np.ndarray:
    """Return orthonormal columns that span those of the matrix.

    The sign and order of columns may differ from other procedures; neither changes a product of factors.

    Source: torch, _orthogonalize, which takes Gram-Schmidt up to rank 2, and QR above.
    """
    return np.linalg.qr(matrix)[0]


def worth_compressing(shape: tuple[int, ...], rank: int, least_rate: float) -> bool:
    """Return whether the factors are smaller than the matrix by more than this rate; vectors never are.

    Source: torch, _should_compress: (n + m) r rate < n m, with the r that is asked for.
    """
    if len(shape) < 2:
        return False
    n, m = shape[0], int(np.prod(shape[1:]))
    return (n + m) * rank * least_rate < n * m


def two_factors(matrices: list[np.ndarray], q: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """Return every worker's approximation, and the next Q.

        P = orth((1/K) sum_k M_k orth(Q));  Q_k = M_k^T P;  Q = (1/K) sum_k Q_k

    The approximations are P Q_k^T, and their mean is P Q^T.

    Source: torch, powerSGD_hook.
    """
    basis = orthonormal(q)
    p = orthonormal(sum(matrix @ basis for matrix in matrices) / len(matrices))
    q_of = [matrix.T @ p for matrix in matrices]
    return [p @ own.T for own in q_of], sum(q_of) / len(q_of)


def one_factor(matrices: list[np.ndarray], known: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """Return every worker's approximation with one given factor, and the mean of the other one.

        A = orth(known);  B_k = M_k^T A;  B = (1/K) sum_k B_k

    The approximations are A B_k^T. At the next step B is given, and the matrices are transposed.

    Source: epfml, BasicPowerSGD.aggregate with one iteration a step.
    """
    basis = orthonormal(known)
    other_of = [matrix.T @ basis for matrix in matrices]
    return [basis @ own.T for own in other_of], sum(other_of) / len(other_of)


def train(
    run: Run,
    rank: int,
    first: Callable[[int, int, int], np.ndarray],
    dense_steps: int = 0,
    least_rate: float = 0.0,
    alternate: bool = False,
) -> Iterator[Tensors]:
    """Yield, for every step, the mean over the workers of their weights after that step.

    Dense in the first steps, and for tensors that are not worth compressing; otherwise, for each tensor with
    worker k's gradient g_k at its weights and its error e_k (zero at first):

        M_k = g_k + e_k;  A_k = its approximation;  G = (1/K) sum_k A_k;  e_k = M_k - A_k

    Args:
        run: what to train.
        rank: of the factors; at most the smaller side of a matrix.
        first: the given factor at the first compressed step, of (tensor, rows, columns): Q with m rows;
            with `alternate`, P with n rows.
        dense_steps: steps before the first compressed one.
        least_rate: see `worth_compressing`.
        alternate: one factor a step, P and Q in turn given.
    """
    weights_of, error_of, optimizer_of = run.replicas(), run.zeros(), run.optimizers()
    factor: dict[int, np.ndarray] = {}

    for step in range(run.steps):
        gradients_of = run.gradients(step, weights_of)
        aggregate = mean_over_workers(gradients_of)
        for index, weight in enumerate(run.weights):
            if step < dense_steps or not worth_compressing(weight.shape, rank, least_rate):
                continue
            matrices = [as_matrix(g[index] + e[index]) for g, e in zip(gradients_of, error_of, strict=True)]
            n, m = matrices[0].shape
            if index not in factor:
                factor[index] = first(index, n if alternate else m, min(rank, n, m))
            if not alternate:
                approximations, factor[index] = two_factors(matrices, factor[index])
            elif (step - dense_steps) % 2 == 0:
                approximations, factor[index] = one_factor(matrices, factor[index])
            else:
                transposed, factor[index] = one_factor([own.T for own in matrices], factor[index])
                approximations = [own.T for own in transposed]
            for error, matrix, own in zip(error_of, matrices, approximations, strict=True):
                error[index] = (matrix - own).reshape(weight.shape)
            aggregate[index] = (sum(approximations) / run.workers).reshape(weight.shape)
        weights_of = run.stepped(step, optimizer_of, weights_of, [aggregate] * run.workers)
        yield mean_over_workers(weights_of)
