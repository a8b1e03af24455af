"""AdamW, Muon and LARS, which take the place of `sgd.Optimizer` in other references.

AdamW: Adam with weight decay beside the gradient, for tensors with several dimensions.

Source read: torch 2.13, torch/optim/adamw.py (lines 36 to 49: Adam with decoupled_weight_decay) and
torch/optim/adam.py (_single_tensor_adam, lines 414 to 419 for the decay, 456 and 475 for the moments, 530 to
546 for the step). The multiplier of a schedule is inside lr, as there. Of Loshchilov and Hutter, "Decoupled
Weight Decay Regularization", arXiv:1711.05101, nothing was read. Its algorithm 2, from memory, multiplies the
decay by the multiplier of the schedule, and not by the learning rate.

torch decays all tensors of a group; that those with at most one dimension keep theirs is the benchmark's
choice.

Muon: momentum whose matrices are made nearly orthogonal, and AdamW for the other tensors.

Sources read:

* github.com/KellerJordan/Muon, muon.py at commit 00ba60d (zeropower_via_newtonschulz5, muon_update,
  SingleDeviceMuonWithAuxAdam).
* torch 2.13, torch/optim/_muon.py (_adjust_lr), for the factor of Liu et al., "Muon is Scalable for LLM
  Training", arXiv:2502.16982. The paper was not read.

Their Newton-Schulz steps apply an odd polynomial to the singular values of a matrix and keep its singular
vectors. So here the polynomial is applied to the singular values themselves.

LARS: momentum SGD with a step length of its own for every tensor.

Sources read:

* torchlars: github.com/kakaobrain/torchlars, torchlars/lars.py at commit 0f691f5.
* apex: github.com/NVIDIA/apex, apex/parallel/LARC.py at commit 0bfb830.
* bolts: github.com/Lightning-Universe/lightning-bolts, src/pl_bolts/optimizers/lars.py at commit 268d493.
* MindSpore's documentation of mindspore.nn.LARS (release 2.5), which restates the paper's algorithm.

The paper was not read: You, Gitman and Ginsburg, "Large Batch Training of Convolutional Networks",
arXiv:1708.03888.
"""

from collections.abc import Sequence

import numpy as np

from .sgd import Tensors, zeros_like

EPSILON = 1e-8


class AdamW:
    """One worker's AdamW; used like sgd.Optimizer.

    For every tensor w with gradient g, learning rate lr, step t from 1 and m, s zero at first:

        m = beta1 * m + (1 - beta1) * g          s = beta2 * s + (1 - beta2) * g^2
        w = w - lr * decay * w - lr * (m / (1 - beta1^t)) / (sqrt(s / (1 - beta2^t)) + 1e-8)

    decay is weight_decay for tensors with more than one dimension, otherwise 0.
    """

    def __init__(self, beta1: float, beta2: float, weight_decay: float) -> None:
        self.beta1, self.beta2, self.weight_decay = beta1, beta2, weight_decay
        self.mean: Tensors | None = None
        self.square: Tensors = []
        self.steps = 0

    def step(
        self, weights: Sequence[np.ndarray], gradient: Sequence[np.ndarray], learning_rate: float
    ) -> Tensors:
        """Return the weights after one step; the weights passed in are left as they are."""
        if self.mean is None:
            self.mean, self.square = zeros_like(weights), zeros_like(weights)
        self.steps += 1
        stepped = []
        for i, (w, g) in enumerate(zip(weights, gradient, strict=True)):
            self.mean[i] = self.beta1 * self.mean[i] + (1 - self.beta1) * g
            self.square[i] = self.beta2 * self.square[i] + (1 - self.beta2) * g * g
            mean = self.mean[i] / (1 - self.beta1**self.steps)
            square = self.square[i] / (1 - self.beta2**self.steps)
            decay = self.weight_decay if w.ndim > 1 else 0.0
            stepped.append(w - learning_rate * decay * w - learning_rate * mean / (np.sqrt(square) + EPSILON))
        return stepped


def nearly_orthogonal(matrix: np.ndarray) -> np.ndarray:
    """Return the matrix with its singular values sent through the quintic polynomial five times."""
    left, values, right = np.linalg.svd(matrix / max(np.sqrt(np.sum(matrix**2)), 1e-7), full_matrices=False)
    for _ in range(5):
        values = 3.4445 * values - 4.7750 * values**3 + 2.0315 * values**5
    return np.asarray(left @ np.diag(values) @ right)


class Muon:
    """One worker's Muon with AdamW beside it; used like sgd.Optimizer.

    For every hidden tensor w with gradient g, seen as a matrix with one row for each output, learning rate
    lr and buffer m, zero at first:

        m = momentum * m + (1 - momentum) * g
        u = momentum * m + (1 - momentum) * g
        w = w - lr * weight_decay * w - lr * 0.2 * sqrt(max(rows, columns)) * nearly_orthogonal(u)

    All other tensors are AdamW's, with the same lr and weight decay.
    """

    def __init__(
        self, hidden: Sequence[bool], momentum: float, beta1: float, beta2: float, weight_decay: float
    ) -> None:
        self.hidden, self.momentum, self.weight_decay = hidden, momentum, weight_decay
        self.adamw = AdamW(beta1, beta2, weight_decay)
        self.buffer: Tensors | None = None

    def step(
        self, weights: Sequence[np.ndarray], gradient: Sequence[np.ndarray], learning_rate: float
    ) -> Tensors:
        """Return the weights after one step; the weights passed in are left as they are."""
        if self.buffer is None:
            self.buffer = zeros_like(weights)
        # AdamW's state of a tensor does not depend on the others, so it may also step the hidden ones.
        stepped = self.adamw.step(weights, gradient, learning_rate)
        for i, (w, g) in enumerate(zip(weights, gradient, strict=True)):
            if self.hidden[i]:
                self.buffer[i] = self.momentum * self.buffer[i] + (1 - self.momentum) * g
                update = self.momentum * self.buffer[i] + (1 - self.momentum) * g
                matrix = update.reshape(len(update), -1)
                factor = 0.2 * np.sqrt(max(matrix.shape))
                update = factor * nearly_orthogonal(matrix).reshape(w.shape)
                stepped[i] = w - learning_rate * self.weight_decay * w - learning_rate * update
        return stepped


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
