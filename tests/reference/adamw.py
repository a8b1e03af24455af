"""AdamW: Adam with weight decay beside the gradient, for tensors with several dimensions.

Source read: torch 2.13, torch/optim/adamw.py (lines 36 to 49: Adam with decoupled_weight_decay) and
torch/optim/adam.py (_single_tensor_adam, lines 414 to 419 for the decay, 456 and 475 for the moments, 530 to
546 for the step). The multiplier of a schedule is inside lr, as there. Of Loshchilov and Hutter, "Decoupled
Weight Decay Regularization", arXiv:1711.05101, nothing was read. Its algorithm 2, from memory, multiplies the
decay by the multiplier of the schedule, and not by the learning rate.

torch decays all tensors of a group; that those with at most one dimension keep theirs is the benchmark's
choice.
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
