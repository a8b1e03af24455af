"""Stochastic gradient descent with momentum, and what every reference shares.

Slow on purpose: float64, one process, plain loops. Written from the sources, not from the
benchmark's own code, so that the two can be compared.

Sources read: torch 2.13, torch/optim/sgd.py (_single_tensor_sgd), and the note on momentum in the
docstring of torch.optim.SGD.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

Tensors = list[np.ndarray]


def copy_tensors(tensors: Sequence[np.ndarray]) -> Tensors:
    """Return float64 copies of the tensors: later changes to either side stay there."""
    return [np.array(tensor, dtype=np.float64) for tensor in tensors]


def zeros_like(tensors: Sequence[np.ndarray]) -> Tensors:
    """Return float64 zeros in the shapes of the tensors."""
    return [np.zeros(tensor.shape) for tensor in tensors]


def mean_over_workers(tensors_of_workers: Sequence[Sequence[np.ndarray]]) -> Tensors:
    """Return the mean over the workers, tensor by tensor: (1/K) * sum_k x_k, k in order."""
    total = copy_tensors(tensors_of_workers[0])
    for tensors in tensors_of_workers[1:]:
        total = [t + tensor for t, tensor in zip(total, tensors, strict=True)]
    return [tensor / len(tensors_of_workers) for tensor in total]


class Optimizer:
    """One worker's SGD with momentum, in PyTorch's convention.

    For every tensor w with gradient g, learning rate lr and buffer v:

        d = g + weight_decay * w
        v = d at the first step, momentum * v + d at later steps
        direction = d                 if momentum == 0
                    d + momentum * v  if nesterov
                    v                 otherwise
        w = w - lr * direction

    Source: torch, _single_tensor_sgd with dampening 0. The learning rate multiplies the direction,
    not the gradient inside the buffer: torch's docstring says that other frameworks do the latter.
    """

    def __init__(self, momentum: float, weight_decay: float, nesterov: bool) -> None:
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.nesterov = nesterov
        self.buffer: Tensors | None = None

    def step(
        self, weights: Sequence[np.ndarray], gradient: Sequence[np.ndarray], learning_rate: float
    ) -> Tensors:
        """Return the weights after one step; the weights passed in are left as they are."""
        # torch: grad.add(param, alpha=weight_decay)
        decayed = [g + self.weight_decay * w for g, w in zip(gradient, weights, strict=True)]

        # torch: the first buffer is a copy of the gradient, later ones are mul_(momentum).add_(grad)
        if self.buffer is None:
            self.buffer = copy_tensors(decayed)
        else:
            self.buffer = [self.momentum * v + d for v, d in zip(self.buffer, decayed, strict=True)]

        # torch: nesterov adds momentum times the new buffer to the gradient
        if self.momentum == 0:
            direction = decayed
        elif self.nesterov:
            direction = [d + self.momentum * v for d, v in zip(decayed, self.buffer, strict=True)]
        else:
            direction = self.buffer

        return [w - learning_rate * u for w, u in zip(weights, direction, strict=True)]

    def reset(self) -> None:
        """Set the buffer to zero, so that the next step has v = momentum * 0 + d. Local SGD asks for it."""
        if self.buffer is not None:
            self.buffer = zeros_like(self.buffer)


class Run(NamedTuple):
    """What a reference trains: K workers, numbered node by node, that begin with the same weights.

    gradient       of (worker, step, that worker's weights)
    learning_rate  of a step
    loss           of (worker, step, that worker's weights), for methods that follow it
    make_optimizer makes a worker's; None: SGD with this momentum, weight decay and nesterov
    """

    weights: Sequence[np.ndarray]
    gradient: Callable[[int, int, Tensors], Sequence[np.ndarray]]
    workers: int
    steps: int
    learning_rate: Callable[[int], float]
    momentum: float
    weight_decay: float
    nesterov: bool
    loss: Callable[[int, int, Tensors], float]
    steps_per_epoch: int
    nodes: int
    make_optimizer: Callable[[], Any] | None = None

    def replicas(self) -> list[Tensors]:
        """Return every worker's weights at the start."""
        return [copy_tensors(self.weights) for _ in range(self.workers)]

    def zeros(self) -> list[Tensors]:
        """Return zeros for every worker."""
        return [zeros_like(self.weights) for _ in range(self.workers)]

    def optimizers(self) -> list[Any]:
        """Return every worker's optimizer before its first step."""
        if self.make_optimizer is not None:
            return [self.make_optimizer() for _ in range(self.workers)]
        return [Optimizer(self.momentum, self.weight_decay, self.nesterov) for _ in range(self.workers)]

    def gradients(self, step: int, weights_of: Sequence[Tensors]) -> list[Tensors]:
        """Return every worker's gradient at its weights."""
        return [
            copy_tensors(self.gradient(worker, step, copy_tensors(weights)))
            for worker, weights in enumerate(weights_of)
        ]

    def losses(self, step: int, weights_of: Sequence[Tensors]) -> list[float]:
        """Return every worker's loss at its weights."""
        return [
            float(self.loss(worker, step, copy_tensors(weights))) for worker, weights in enumerate(weights_of)
        ]

    def stepped(
        self,
        step: int,
        optimizer_of: Sequence[Any],
        weights_of: Sequence[Tensors],
        gradients: Sequence[Tensors],
    ) -> list[Tensors]:
        """Return every worker's weights after a step of its optimizer with its gradient."""
        return [
            optimizer.step(weights, gradient, self.learning_rate(step))
            for optimizer, weights, gradient in zip(optimizer_of, weights_of, gradients, strict=True)
        ]
