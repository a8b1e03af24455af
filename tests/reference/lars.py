"""LARS: momentum SGD with a step length of its own for every tensor.

Sources read:

* torchlars: github.com/kakaobrain/torchlars, torchlars/lars.py at commit 0f691f5.
* apex: github.com/NVIDIA/apex, apex/parallel/LARC.py at commit 0bfb830.
* bolts: github.com/Lightning-Universe/lightning-bolts, src/pl_bolts/optimizers/lars.py at commit 268d493.
* MindSpore's documentation of mindspore.nn.LARS (release 2.5), which restates the algorithm of You, Gitman
  and Ginsburg, "Large Batch Training of Convolutional Networks", arXiv:1708.03888. The paper was not read.
"""

from collections.abc import Sequence

import numpy as np

from .sgd import Tensors


def euclidean_norm(tensor: np.ndarray) -> float:
    """Return the square root of the sum of the squares of all entries."""
    return float(np.sqrt(np.sum(tensor**2)))


class Lars:
    """One worker's LARS, layer-wise adaptive rate scaling; used like sgd.Optimizer.

    For every tensor w with more than one dimension, with gradient g, learning rate lr and
    |.| the Euclidean norm of that tensor:

        ratio = trust * |w| / (|g| + weight_decay * |w|), 1 where |w| or |g| is zero
        d = ratio * (g + weight_decay * w)

    For tensors with at most one dimension, d = g: ratio 1, no weight decay. For both kinds, with
    the buffer v (zero at first):

        v = momentum * v + lr * d    w = w - v         inside
        v = momentum * v + d         w = w - lr * v    not inside

    Source: the ratio and d are those of torchlars (apply_adaptive_lrs), apex (LARC.step with clip off)
    and bolts, without the 1e-8 that they add to the divisor. "not inside" is what these three do; "inside"
    is MindSpore's restatement of the paper, which treats tensors with one dimension like all others.
    Leaving these alone follows bolts, where parameters without weight decay have no ratio; that they are
    the ones with at most one dimension is the benchmark's choice.
    """

    def __init__(self, momentum: float, weight_decay: float, trust: float, inside: bool) -> None:
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.trust = trust
        self.inside = inside
        self.buffer: Tensors | None = None

    def ratio(self, weight: np.ndarray, gradient: np.ndarray) -> float:
        """Return the factor on a tensor's decayed gradient.

        Where a norm is zero: torchlars hands a ratio of one to its kernel, which was not read, and decays
        whatever comes back. apex and bolts neither scale nor decay there.
        """
        weight_norm = euclidean_norm(weight)
        gradient_norm = euclidean_norm(gradient)
        if weight_norm == 0 or gradient_norm == 0:
            return 1.0
        return self.trust * weight_norm / (gradient_norm + self.weight_decay * weight_norm)

    def step(
        self, weights: Sequence[np.ndarray], gradient: Sequence[np.ndarray], learning_rate: float
    ) -> Tensors:
        """Return the weights after one step; the weights passed in are left as they are."""
        if self.buffer is None:
            self.buffer = [np.zeros_like(w, dtype=np.float64) for w in weights]

        scaled = []
        for w, g in zip(weights, gradient, strict=True):
            if w.ndim > 1:
                scaled.append(self.ratio(w, g) * (g + self.weight_decay * w))
            else:
                scaled.append(g)

        # MindSpore: v = m v + rate * ratio * (g + decay w), w = w - v
        if self.inside:
            self.buffer = [
                self.momentum * v + learning_rate * d for v, d in zip(self.buffer, scaled, strict=True)
            ]
            return [w - v for w, v in zip(weights, self.buffer, strict=True)]

        # torchlars and apex: the scaled gradient goes to torch's SGD, without decay
        self.buffer = [self.momentum * v + d for v, d in zip(self.buffer, scaled, strict=True)]
        return [w - learning_rate * v for w, v in zip(weights, self.buffer, strict=True)]
