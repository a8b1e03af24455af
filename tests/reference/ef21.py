"""EF21 and EF21-SGDM: workers send the largest entries of what changed since the last step.

Sources read:

* EF21's authors: github.com/IgorSokoloff/ef21_experiments_source_code at commit 805c9d7, DL/EF21_100K.py
  (WorkerThreadMarina.run, lines 186 to 198 and 278 to 313; the master's loop, lines 502 to 517 and 568 to
  578) and DL/compressors.py (compressVector, lines 198 to 204).
* Of Fatkhullin, Tyurin and Richtarik, "Momentum Provably Improves Error Feedback!", NeurIPS 2023,
  arXiv:2305.15155, the abstract. EF21-SGDM, its algorithm 1, is from memory. A summary of it, and the same
  recursion in public code for Byzantine workers (byz_ef21_sgdm.py, its _client_process), say the same.

Line 571 of the authors' master takes the list of worker 0 and adds the others' tensors into it. So its h
becomes the sum of all. The publication keeps them apart, and so does this reference.
"""

from collections.abc import Iterator

import numpy as np

from .sgd import Run, Tensors, copy_tensors, mean_over_workers
from .top_k import choose_largest, count_sent


def train(run: Run, density: float, eta: float = 1.0) -> Iterator[Tensors]:
    """Yield, for every step, the mean over the workers of their weights after that step.

    Worker k's gradient at its weights is g_k. At the first step nothing is compressed:

        v_k = h_k = g_k

    At every later step, for every tensor with n entries:

        v_k = (1 - eta) * v_k + eta * g_k
        c_k = the ceil(density * n) entries of v_k - h_k with largest magnitude, zero elsewhere
        h_k = h_k + c_k

    After either:

        G = (1/K) * sum_k h_k
        w_k = Optimizer_k(w_k, G, lr(t))

    Source: run, lines 186 to 198, sets g_i (here h_k) to the first gradient; lines 296 to 312 add the
    compressed difference to it; the master takes the mean of all (571 to 578), and workers step with it
    (281). There eta is 1. Their first gradient and all others are those of all samples; EF21-SGDM, from
    memory, has one batch, and starts with v = h = the mean over a first batch, here of usual size.

    The authors choose entries of all tensors as one row, and step by a rate without momentum. Own: each
    tensor has its own count, rounded up, and the recipe's optimizer follows.
    """
    weights_of, optimizer_of = run.replicas(), run.optimizers()
    momentum_of: list[Tensors] = []
    known_of: list[Tensors] = []

    for step in range(run.steps):
        gradients = run.gradients(step, weights_of)
        if step == 0:
            momentum_of = [copy_tensors(gradient) for gradient in gradients]
            known_of = [copy_tensors(gradient) for gradient in gradients]
        else:
            for momentum, known, gradient in zip(momentum_of, known_of, gradients, strict=True):
                for index, g in enumerate(gradient):
                    momentum[index] = (1 - eta) * momentum[index] + eta * g
                    difference = momentum[index] - known[index]
                    chosen = choose_largest(difference, count_sent(density, g.size))
                    known[index] = known[index] + np.where(chosen, difference, 0)

        aggregate = mean_over_workers(known_of)
        weights_of = run.stepped(step, optimizer_of, weights_of, [aggregate] * run.workers)
        yield mean_over_workers(weights_of)
