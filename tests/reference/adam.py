"""Adam, with the interface of the reference SGD.

Sources read: torch 2.13, torch/optim/adam.py (_single_tensor_adam), and the algorithm in the docstring of
torch.optim.Adam.
"""

from collections.abc import Sequence

import numpy as np

from .sgd import Tensors

EPSILON = 1e-8  # torch's default


class Adam:
    """One worker's Adam, in PyTorch's convention.

    For every tensor w with gradient g, learning rate lr, moments m and v (zero at first) and the
    number of the step t, counted from 1:

        d = g + weight_decay * w
        m = beta1 * m + (1 - beta1) * d
        v = beta2 * v + (1 - beta2) * d ** 2
        w = w - lr * (m / (1 - beta1 ** t)) / (sqrt(v / (1 - beta2 ** t)) + 1e-8)

    Source: torch, _single_tensor_adam without amsgrad and decoupled_weight_decay. Weight decay is a
    part of the gradient, so it passes through both moments; this differs from AdamW.
    """

    def __init__(self, beta1: float, beta2: float, weight_decay: float) -> None:
        self.beta1 = beta1
        self.beta2 = beta2
        self.weight_decay = weight_decay
        self.t = 0
        self.first: Tensors | None = None
        self.second: Tensors | None = None

    def step(
        self, weights: Sequence[np.ndarray], gradient: Sequence[np.ndarray], learning_rate: float
    ) -> Tensors:
        """Return the weights after one step; the weights passed in are left as they are."""
        # torch: grad.add(param, alpha=weight_decay)
        decayed = [g + self.weight_decay * w for g, w in zip(gradient, weights, strict=True)]

        # torch, Adam._init_group: both moments are zeros, the step is 0
        if self.first is None or self.second is None:
            self.first = [np.zeros_like(d) for d in decayed]
            self.second = [np.zeros_like(d) for d in decayed]

        # torch: step_t += 1, then exp_avg and exp_avg_sq
        self.t += 1
        self.first = [self.beta1 * m + (1 - self.beta1) * d for m, d in zip(self.first, decayed, strict=True)]
        self.second = [
            self.beta2 * v + (1 - self.beta2) * d**2 for v, d in zip(self.second, decayed, strict=True)
        ]

        # torch: bias_correction1 in the step's size, bias_correction2 under the root, eps added behind it
        stepped = []
        for w, m, v in zip(weights, self.first, self.second, strict=True):
            mean = m / (1 - self.beta1**self.t)
            square = v / (1 - self.beta2**self.t)
            stepped.append(w - learning_rate * mean / (np.sqrt(square) + EPSILON))
        return stepped
