"""Top-k sparsification of every worker's gradients, with error feedback.

Sources read:

* GRACE: github.com/sands-lab/grace at commit 106e3de: grace_dl/torch/compressor/topk.py (sparsify),
  memory/residual.py (class ResidualMemory); communicator/allgather.py (class Allgather) at fc680a4.
* The authors of "Sparsified SGD with Memory": github.com/epfml/sparsifiedSGD at commit 1a17873: memory.py
  (class GradientMemory) and logistic.py (LogisticSGD.fit).
* For how many are sent: github.com/synxlin/deep-gradient-compression, dgc/compression.py, at b929ca7.
"""

import math
from collections.abc import Iterator

import numpy as np

from .sgd import Run, Tensors, mean_over_workers


def count_sent(density: float, entries: int) -> int:
    """Return k = ceil(density * entries), at least 1, at most all entries.

    In binary, 0.07 * 100 is 7.000000000000001. So a product that differs from a whole number by no more
    than rounding (1e-12 of it) counts as that whole number.

    Source: DGCCompressor.initialize, num_selects, which takes the product as it is. GRACE rounds down, and
    sends at least 1.
    """
    product = density * entries
    nearest = round(product)
    k = nearest if math.isclose(product, nearest, rel_tol=1e-12) else math.ceil(product)
    return min(max(k, 1), entries)


def choose_largest(tensor: np.ndarray, k: int) -> np.ndarray:
    """Return a mask, true at the k entries of largest magnitude.

    Of entries of equal magnitude, the one that comes first in row-major order is chosen.

    Source: GRACE, sparsify (torch.topk of the absolute values); which of equals is the benchmark's choice.
    """
    flat = tensor.reshape(-1)
    by_magnitude = sorted(range(flat.size), key=lambda i: (-abs(flat[i]), i))
    chosen = np.zeros(flat.size, dtype=bool)
    chosen[by_magnitude[:k]] = True
    return chosen.reshape(tensor.shape)


def train(run: Run, density: float, memory: str = "gradient") -> Iterator[Tensors]:
    """Yield, for every step, the mean over the workers of their weights after that step.

    At every step t, for every tensor, with worker k's gradient g_k at its weights w_k and its
    residual r_k (zero at first):

        scale = lr(t) with memory "update", else 1
        r_k = r_k + scale * g_k(w_k)
        s_k = the ceil(density * n) of the n entries of r_k with largest magnitude, zero elsewhere
        r_k = r_k - s_k                 (r_k = 0 with memory "none")
        G = (1/K) * sum_k s_k / scale
        w_k = Optimizer_k(w_k, G, lr(t))

    Momentum and weight decay thus act after the aggregation.

    Source: memory "gradient" and "none" are GRACE, with ResidualMemory or without one. memory "update" is
    sparsifiedSGD. There the memory holds the gradient times the learning rate, and its output is added to the
    weights. sparsifiedSGD has neither workers nor momentum. Own: the output is divided by the rate again, so
    that an optimizer can follow.
    """
    weights_of, residual_of, optimizer_of = run.replicas(), run.zeros(), run.optimizers()

    for step in range(run.steps):
        scale = run.learning_rate(step) if memory == "update" else 1.0
        sent_of = []
        for residual, gradient in zip(residual_of, run.gradients(step, weights_of), strict=True):
            sent = []
            for index, g in enumerate(gradient):
                # ResidualMemory.compensate with beta = gamma = 1; GradientMemory: m += lr * gradient
                accumulated = residual[index] + scale * g
                sent.append(
                    np.where(choose_largest(accumulated, count_sent(density, g.size)), accumulated, 0)
                )
                # ResidualMemory.update: what was not sent; GradientMemory: m is 0 where it was sent
                residual[index] = np.zeros_like(g) if memory == "none" else accumulated - sent[-1]
            sent_of.append(sent)

        # Allgather.wait_receive: the sum of what all have sent, divided by world_size
        aggregate = [mean / scale for mean in mean_over_workers(sent_of)]
        weights_of = run.stepped(step, optimizer_of, weights_of, [aggregate] * run.workers)
        yield mean_over_workers(weights_of)
