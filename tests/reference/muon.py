"""Muon: momentum whose matrices are made nearly orthogonal, and AdamW for the other tensors.

Sources read:

* github.com/KellerJordan/Muon, muon.py at commit 00ba60d (zeropower_via_newtonschulz5, muon_update,
  SingleDeviceMuonWithAuxAdam).
* torch 2.13, torch/optim/_muon.py (_adjust_lr), for the factor of Liu et al., "Muon is Scalable for LLM
  Training", arXiv:2502.16982. The paper was not read.

Their Newton-Schulz steps apply an odd polynomial to the singular values of a matrix and keep its singular
vectors. So here the polynomial is applied to the singular values themselves.
"""

from collections.abc import Sequence

import numpy as np

from .adamw import AdamW
from .sgd import Tensors, zeros_like


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
