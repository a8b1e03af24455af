"""Deep Gradient Compression: momentum runs before the sparsification, on every worker by itself.

Sources read:

* The authors' code, github.com/synxlin/deep-gradient-compression at commit b929ca7: dgc/compression.py
  (class DGCCompressor), dgc/optim/sgd.py (class DGCSGD), dgc/clip_grad.py, dgc/horovod/optimizer.py,
  configs/dgc/*.py, train.py. Its dgc/memory.py (class DGCSGDMemory) was read in a fork,
  github.com/NitroKnight68/deep-gradient-compression at commit 02afe43.
* Of Lin, Han, Mao, Wang and Dally, "Deep Gradient Compression: Reducing the Communication Bandwidth for
  Distributed Training", ICLR 2018, arXiv:1712.01887, the abstract, and second-hand summaries of its
  section on local gradient clipping.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from .sgd import Run, Tensors, mean_over_workers, zeros_like
from .top_k import choose_largest, count_sent


def clip(gradient: Tensors, workers: int, clip_norm: float) -> Tensors:
    """Return a worker's gradient, scaled down if its share of the mean is too long.

    The share is g / K. With |.| the Euclidean norm over all tensors together and
    limit = clip_norm / sqrt(K):

        g = g * limit / |g / K|  if |g / K| > limit, else g

    Source: reconstruction. Summaries of the paper give the threshold, that of the mean times K ** -0.5,
    and that a worker clips before it accumulates. Over which tensors the norm goes was not read. The
    authors' clip_grad.py clips every tensor by itself, and their configurations do not clip at all.
    """
    norm = math.sqrt(sum(float(np.sum((g / workers) ** 2)) for g in gradient))
    limit = clip_norm * workers**-0.5
    return [g * (limit / norm) for g in gradient] if norm > limit else gradient


def train(
    run: Run,
    density: float,
    warmup_densities: Sequence[float],
    masking: bool = True,
    clip_norm: float | None = None,
) -> Iterator[Tensors]:
    """Yield, for every step, the mean over the workers of their weights after that step.

    Step t is in epoch e = floor(t / steps_per_epoch). The density p of that epoch is
    warmup_densities[e] as long as there is one, then density. Worker k's gradient g_k at its
    weights w_k is clipped first (see clip), unless clip_norm is None.

    Dense are the tensors with at most one dimension, and in an epoch with p = 1 all tensors. With n
    entries in a tensor, its velocity u_k and accumulated velocity v_k (both zero at first) and momentum m:

        dense:   h_k = (1/K) * sum_j g_j
                 u_k = m * u_k + h_k      d_k = u_k                plain
                 u_k = m * (u_k + h_k)    d_k = u_k + h_k          nesterov

        sparse:  u_k = m * u_k + g_k      v_k = v_k + u_k          plain
                 u_k = m * (u_k + g_k)    v_k = v_k + u_k + g_k    nesterov
                 s_k = the ceil(p * n) entries of v_k with largest magnitude, zero elsewhere
                 v_k = 0 at the entries in s_k; with masking, u_k = 0 there, too
                 d_k = (1/K) * sum_j s_j

        w_k = Optimizer_k(w_k, 0, lr(t)) - lr(t) * d_k

    The momentum of the gradients is in u, whether the tensor is dense or sparse, so it is carried over
    when that changes; v rests while the tensor is dense. The optimizer, given a gradient of zero, adds
    weight decay with a buffer of its own. After a sparse epoch the u_k differ, so in a dense epoch that
    follows one the weights drift apart, in the authors' code as here.

    Source: the authors' code, as the comments say. Here the choice of entries is exact, theirs is by a
    threshold estimated from a sample.
    """
    weights_of, velocity_of, accumulated_of = run.replicas(), run.zeros(), run.zeros()
    optimizer_of, nothing = run.optimizers(), zeros_like(run.weights)

    for step in range(run.steps):
        # train.py, main, and DGCCompressor.warmup_compress_ratio with a list of warmup_coeff: the ratio of
        # an epoch, counted from 0, is set before its first step. The list may be shorter here.
        epoch = step // run.steps_per_epoch
        p = warmup_densities[epoch] if epoch < len(warmup_densities) else density
        # train.py, main: only parameters with more than one dimension are registered for compression;
        # DGCCompressor.compress: and only if the ratio is below 1.
        is_sparse = [w.ndim > 1 and p < 1 for w in run.weights]

        gradients = run.gradients(step, weights_of)
        if clip_norm is not None:
            gradients = [clip(gradient, run.workers, clip_norm) for gradient in gradients]
        # DGCCompressor.compress and decompress: a dense gradient is averaged before its momentum.
        mean_gradient = mean_over_workers(gradients)

        given_of = []
        for velocity, accumulated, gradient in zip(velocity_of, accumulated_of, gradients, strict=True):
            given = []
            for index, sparse in enumerate(is_sparse):
                g = gradient[index] if sparse else mean_gradient[index]
                # DGCSGDMemory.compensate, its four branches: u is its momentums, v its velocities.
                u = velocity[index]
                if run.nesterov:
                    u = run.momentum * (u + g)
                    compensated = u + g
                else:
                    u = run.momentum * u + g
                    compensated = u
                if not sparse:
                    velocity[index] = u
                    given.append(compensated)
                    continue

                # DGCCompressor._sparsify: num_selects = ceil(numel * ratio) of the largest magnitudes.
                v = accumulated[index] + compensated
                chosen = choose_largest(v, count_sent(p, v.size))
                given.append(np.where(chosen, v, 0.0))
                # DGCSGDMemory.update: where something was sent v becomes 0, and u if momentum_masking.
                accumulated[index] = np.where(chosen, 0.0, v)
                velocity[index] = np.where(chosen, 0.0, u) if masking else u
            given_of.append(given)

        # DGCCompressor.decompress: what all have sent is added up and divided by the number of workers.
        mean_given = mean_over_workers(given_of)
        # DGCSGD.step: momentum is for the decay alone, and p.grad is added behind it.
        stepped_of = run.stepped(step, optimizer_of, weights_of, [nothing] * run.workers)
        weights_of = [
            [
                w - run.learning_rate(step) * (mean if sparse else own)
                for w, sparse, mean, own in zip(stepped, is_sparse, mean_given, given, strict=True)
            ]
            for stepped, given in zip(stepped_of, given_of, strict=True)
        ]
        yield mean_over_workers(weights_of)
