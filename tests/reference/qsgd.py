"""QSGD and its relatives: each entry becomes one of few levels of its block's norm, at random, unbiased.

Sources read:

* GRACE: github.com/sands-lab/grace at commit 106e3de: grace_dl/torch/compressor/qsgd.py and terngrad.py.
* Of NUQSGD, that its levels are 0 and powers of one half.

GRACE divides by a norm of zero, and then sends NaN. Here a block of zeros is sent as zeros. In GRACE a block
is a whole tensor.
"""

from collections.abc import Callable, Iterator

import numpy as np

from .sgd import Run, Tensors, mean_over_workers


def levels_of(kind: str, s: int) -> np.ndarray:
    """Return the levels from 0 to 1, in increasing order.

    Source: `uniform` is GRACE's QSGD, l / s; `ternary` is TernGrad, 0 and 1; `exponential` is NUQSGD, 0 and
    2^-(s - 1), ..., 1/2, 1.
    """
    if kind == "ternary":
        return np.array([0.0, 1.0])
    if kind == "exponential":
        return np.array([0.0, *(2.0**-power for power in range(s - 1, -1, -1))])
    return np.arange(s + 1) / s


def quantise(block: np.ndarray, kind: str, s: int, draws: np.ndarray) -> np.ndarray:
    """Return the block as it arrives.

        N = |v|_2, with ternary max |v|;  r = |v| / N lies between the levels a <= r < b
        v = N sign(v) b if draw < (r - a) / (b - a), else N sign(v) a

    Args:
        block: flat.
        kind: see `levels_of`.
        s: how many levels there are above zero.
        draws: uniform numbers from 0 to 1, one for each entry.

    Source: GRACE, QSGDCompressor.compress (prob < level_float - previous_level) and TernGradCompressor.
    """
    norm = np.abs(block).max() if kind == "ternary" else np.sqrt((block**2).sum())
    if norm == 0:
        return np.zeros_like(block)
    levels = levels_of(kind, s)
    result = np.zeros_like(block)
    for i, value in enumerate(block):
        share = abs(value) / norm
        below = min(int(np.searchsorted(levels, share, side="right")) - 1, len(levels) - 2)
        low, high = levels[below], levels[below + 1]
        level = high if draws[i] < (share - low) / (high - low) else low
        result[i] = norm * np.sign(value) * level
    return result


def clipped(row: np.ndarray, sigmas: float | None) -> np.ndarray:
    """Return the row, clipped at this many standard deviations; None: not clipped.

    Source: GRACE, TernGradCompressor, with 2.5 and the standard deviation of a whole tensor (divided by n).
    """
    if sigmas is None:
        return row
    limit = sigmas * np.sqrt(((row - row.mean()) ** 2).mean())
    return np.clip(row, -limit, limit)


def train(
    run: Run,
    draws: Callable[[int, int], list[np.ndarray]],
    kind: str = "uniform",
    s: int = 1,
    block: int | None = None,
    sigmas: float | None = None,
) -> Iterator[Tensors]:
    """Yield, for every step, the mean over the workers of their weights after that step.

        G = (1/K) sum_k Q(g_k), block by block of every tensor;  w_k = Optimizer_k(w_k, G, lr(t))

    Args:
        run: what to train.
        draws: of (worker, step): for every tensor one uniform number for each entry, flat.
        kind: see `levels_of`.
        s: how many levels there are above zero.
        block: entries that share a norm; None: a whole tensor.
        sigmas: see `clipped`.
    """
    weights_of, optimizer_of = run.replicas(), run.optimizers()
    for step in range(run.steps):
        sent_of = []
        for worker, gradient in enumerate(run.gradients(step, weights_of)):
            sent = []
            for g, drawn in zip(gradient, draws(worker, step), strict=True):
                row = clipped(g.reshape(-1), sigmas)
                size = block or len(row)
                parts = [
                    quantise(row[at : at + size], kind, s, drawn[at : at + size])
                    for at in range(0, len(row), size)
                ]
                sent.append(np.concatenate(parts).reshape(g.shape))
            sent_of.append(sent)
        aggregate = mean_over_workers(sent_of)
        weights_of = run.stepped(step, optimizer_of, weights_of, [aggregate] * run.workers)
        yield mean_over_workers(weights_of)
