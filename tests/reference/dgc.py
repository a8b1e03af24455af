"""Deep Gradient Compression: momentum runs before the sparsification, on every worker by itself."""

import math
from collections.abc import Sequence

import numpy as np

from .sgd import Gradient, LearningRate, Optimizer, Tensors, copy_tensors, mean_over_workers
from .top_k import choose_largest, count_sent


def clip(gradient: Sequence[np.ndarray], workers: int, clip_norm: float) -> Tensors:
    """Return a worker's gradient, scaled down if its share of the mean is too long.

    The share is g / K. With |.| the Euclidean norm over all tensors together and
    limit = clip_norm / sqrt(K):

        g = g * limit / |g / K|  if |g / K| > limit, else g
    """
    squares = 0.0
    for g in gradient:
        squares += float(np.sum((g / workers) ** 2))
    norm = math.sqrt(squares)

    limit = clip_norm * workers**-0.5
    if norm > limit:
        return [g * (limit / norm) for g in gradient]
    return copy_tensors(gradient)


def train(
    weights: Sequence[np.ndarray],
    gradient: Gradient,
    workers: int,
    steps: int,
    learning_rate: LearningRate,
    momentum: float,
    weight_decay: float,
    nesterov: bool,
    density: float,
    warmup_densities: Sequence[float],
    steps_per_epoch: int,
    masking: bool,
    clip_norm: float | None,
) -> list[Tensors]:
    """Return, for every step, the mean over the workers of their weights after that step.

    Step t is in epoch e = floor(t / steps_per_epoch). The density p of that epoch is
    warmup_densities[e] as long as there is one, then density. Worker k's gradient g_k at its
    weights w_k is clipped first (see clip), unless clip_norm is None.

    Dense are the tensors with at most one dimension, and in an epoch with p = 1 all tensors:

        w_k = Optimizer_k(w_k, (1/K) * sum_j g_j, lr(t))

    For every other tensor, with n entries, velocity u_k and accumulated velocity v_k (both
    zero at first) and momentum m:

        u_k = m * u_k + g_k      v_k = v_k + u_k           plain
        u_k = m * (u_k + g_k)    v_k = v_k + u_k + g_k     nesterov
        s_k = the ceil(p * n) entries of v_k with largest magnitude, zero elsewhere
        v_k = 0 at the entries in s_k; with masking, u_k = 0 there, too
        w_k = Optimizer_k(w_k, 0, lr(t)) - lr(t) * (1/K) * sum_j s_j

    The momentum of the gradients is in u; the optimizer, given a gradient of zero, adds weight
    decay with a buffer of its own. A tensor's u, v and buffer are kept when it changes between
    dense and sparse; while it is dense, u and v rest.

    Source: Lin, Han, Mao, Wang and Dally, "Deep Gradient Compression: Reducing the Communication
    Bandwidth for Distributed Training", ICLR 2018, arXiv:1712.01887. The Nesterov form, the
    dense tensors and the weight decay follow the authors' code,
    https://github.com/synxlin/deep-gradient-compression. Here the choice of entries is exact,
    theirs is by a threshold estimated from a sample.
    """
    for p in (density, *warmup_densities):
        if not 0 < p <= 1:
            raise ValueError(f"a density must be above 0 and at most 1, not {p}")
    if steps_per_epoch < 1:
        raise ValueError(f"steps_per_epoch must be at least 1, not {steps_per_epoch}")
    if clip_norm is not None and clip_norm <= 0:
        raise ValueError(f"clip_norm must be above 0, not {clip_norm}")

    weights_of = [copy_tensors(weights) for _ in range(workers)]
    velocity_of = [[np.zeros_like(w) for w in weights_of[0]] for _ in range(workers)]
    accumulated_of = [[np.zeros_like(w) for w in weights_of[0]] for _ in range(workers)]
    optimizer_of = [Optimizer(momentum, weight_decay, nesterov) for _ in range(workers)]
    history: list[Tensors] = []

    for step in range(steps):
        epoch = step // steps_per_epoch
        p = warmup_densities[epoch] if epoch < len(warmup_densities) else density
        is_sparse = [w.ndim > 1 and p < 1 for w in weights_of[0]]

        sent_of = []
        for worker in range(workers):
            own = copy_tensors(gradient(worker, step, copy_tensors(weights_of[worker])))
            if clip_norm is not None:
                own = clip(own, workers, clip_norm)

            sent = []
            for index, g in enumerate(own):
                if not is_sparse[index]:
                    sent.append(g)
                    continue

                u = velocity_of[worker][index]
                v = accumulated_of[worker][index]
                if nesterov:
                    u = momentum * (u + g)
                    v = v + u + g
                else:
                    u = momentum * u + g
                    v = v + u

                chosen = choose_largest(v, count_sent(p, v.size))
                sent.append(np.where(chosen, v, 0.0))
                accumulated_of[worker][index] = np.where(chosen, 0.0, v)
                velocity_of[worker][index] = np.where(chosen, 0.0, u) if masking else u
            sent_of.append(sent)

        aggregate = mean_over_workers(sent_of)
        dense_part = []
        sparse_part = []
        for index, mean in enumerate(aggregate):
            zero = np.zeros_like(mean)
            dense_part.append(zero if is_sparse[index] else mean)
            sparse_part.append(mean if is_sparse[index] else zero)

        for worker in range(workers):
            stepped = optimizer_of[worker].step(weights_of[worker], dense_part, learning_rate(step))
            weights_of[worker] = [
                w - learning_rate(step) * s for w, s in zip(stepped, sparse_part, strict=True)
            ]

        history.append(mean_over_workers(weights_of))

    return history
