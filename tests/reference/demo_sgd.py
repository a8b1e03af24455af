"""DeMo: workers exchange the largest cosine coefficients of their momentum, and step by the sign.

Source read: the authors' code, github.com/bloc97/DeMo at commit 0e48145, demo.py (DeMo.step, lines 108 to
170; TransformDCT, 172 to 258; CompressDCT, 261 to 307; _dct and _idct, 319 to 393; _get_smaller_split, 440
to 450). DCT, chunks and mean were compared with these classes, run on random tensors, once.
Of Peng, Quesnelle and Kingma, "DeMo: Decoupled Momentum Optimization", arXiv:2411.19870, nothing was read.

The code takes tensors with one or two dimensions. Own: one with more is the matrix [C_out, all others].
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from .sgd import Run, Tensors, mean_over_workers
from .top_k import choose_largest


def side(entries: int, longest: int) -> int:
    """Return the largest divisor of `entries` that is at most `longest`.

    Source: _get_smaller_split.
    """
    return max(d for d in range(1, min(entries, longest) + 1) if entries % d == 0)


def cosines(size: int) -> np.ndarray:
    """Return the orthonormal DCT-II as a matrix: row f holds frequency f.

        C[f, i] = s_f * cos(pi * (2 i + 1) * f / (2 size)),  s_0 = sqrt(1 / size), otherwise sqrt(2 / size)

    Source: _dct with norm "ortho"; its inverse, _idct, is the transposed matrix.
    """
    matrix = np.zeros((size, size))
    for frequency in range(size):
        scale = math.sqrt((1 if frequency == 0 else 2) / size)
        for i in range(size):
            matrix[frequency, i] = scale * math.cos(math.pi * (2 * i + 1) * frequency / (2 * size))
    return matrix


def as_matrix(tensor: np.ndarray) -> np.ndarray:
    """Return the tensor as the matrix [C_out, all others]; a vector is one row.

    A vector's chunks, and their coefficients, are those of this row with sides 1 and `side`.
    """
    return tensor.reshape(1, -1) if tensor.ndim < 2 else tensor.reshape(tensor.shape[0], -1)


class Chunks:
    """The chunks of a tensor: blocks of `height` x `width` of its matrix, both of which divide its sides.

    Source: TransformDCT.__init__ for the sides, encode and decode for the two transforms.
    """

    def __init__(self, tensor: np.ndarray, longest: int) -> None:
        self.shape, self.matrix_shape = tensor.shape, as_matrix(tensor).shape
        self.height, self.width = (side(entries, longest) for entries in self.matrix_shape)
        self.rows, self.columns = cosines(self.height), cosines(self.width)

    def blocks(self) -> list[tuple[slice, slice]]:
        """Return where each chunk lies in the matrix, row by row."""
        rows, columns = self.matrix_shape
        return [
            (slice(y, y + self.height), slice(x, x + self.width))
            for y in range(0, rows, self.height)
            for x in range(0, columns, self.width)
        ]

    def encode(self, tensor: np.ndarray) -> list[np.ndarray]:
        """Return the coefficients of each chunk."""
        matrix = as_matrix(tensor)
        return [self.rows @ matrix[block] @ self.columns.T for block in self.blocks()]

    def decode(self, coefficients: Sequence[np.ndarray]) -> np.ndarray:
        """Return the tensor that has these coefficients."""
        matrix = np.zeros(self.matrix_shape)
        for block, of_chunk in zip(self.blocks(), coefficients, strict=True):
            matrix[block] = self.rows.T @ of_chunk @ self.columns
        return matrix.reshape(self.shape)


def mean_of_senders(values_of: Sequence[np.ndarray], chosen_of: Sequence[np.ndarray]) -> np.ndarray:
    """Return, for each coefficient, the mean over the workers that chose it; 0 where nobody did.

    Source: batch_decompress and decompress, scatter_reduce_ with "mean" and without the zeros below.
    """
    total, senders = np.zeros(values_of[0].shape), np.zeros(values_of[0].shape)
    for values, chosen in zip(values_of, chosen_of, strict=True):
        total = total + np.where(chosen, values, 0)
        senders = senders + chosen
    return total / np.maximum(senders, 1)


def train(
    run: Run, chunk: int = 64, k: int = 32, decay: float = 0.999, sign: bool = True
) -> Iterator[Tensors]:
    """Yield, for every step, the mean over the workers of their weights after that step.

    At every step, for every tensor, with worker i's gradient g_i at its weights and its momentum d_i (zero
    at first):

        d_i = decay * d_i + lr * g_i
        q_i = in each chunk, the k coefficients of DCT(d_i) with largest magnitude, zero elsewhere
        d_i = d_i - iDCT(q_i)
        q   = each coefficient's mean over the workers that have it in q_i
        w_i = (1 - lr * weight_decay) * w_i - lr * sign(iDCT(q)), where sign(0) = 0

    The code's optimizer is SGD without momentum (line 38). So the recipe's momentum has no part.

    Without `sign`, the recipe's whole optimizer steps with the gradient iDCT(q) / lr.

    Source: step. Of equal magnitudes the code leaves the choice to torch; here the first in row-major order
    of the chunk is chosen. Without `sign` is the benchmark's own.
    """
    weights_of, momentum_of, optimizer_of = run.replicas(), run.zeros(), run.optimizers()
    chunks_of = [Chunks(weight, chunk) for weight in run.weights]

    for step in range(run.steps):
        lr = run.learning_rate(step)
        gradients = run.gradients(step, weights_of)
        update = []
        for index, chunks in enumerate(chunks_of):
            coefficients_of, chosen_of = [], []
            for momentum, gradient in zip(momentum_of, gradients, strict=True):
                momentum[index] = decay * momentum[index] + lr * gradient[index]
                coefficients = chunks.encode(momentum[index])
                chosen = [choose_largest(c, min(k, c.size)) for c in coefficients]
                sent = [np.where(mask, c, 0) for mask, c in zip(chosen, coefficients, strict=True)]
                momentum[index] = momentum[index] - chunks.decode(sent)
                coefficients_of.append(coefficients)
                chosen_of.append(chosen)
            mean = [
                mean_of_senders(values, masks)
                for values, masks in zip(zip(*coefficients_of), zip(*chosen_of), strict=True)
            ]
            update.append(chunks.decode(mean))

        if sign:
            weights_of = [
                [
                    (1 - lr * run.weight_decay) * w - lr * np.sign(u)
                    for w, u in zip(weights, update, strict=True)
                ]
                for weights in weights_of
            ]
        else:
            given = [u / lr for u in update]
            weights_of = run.stepped(step, optimizer_of, weights_of, [given] * run.workers)
        yield mean_over_workers(weights_of)
