"""The references' optimizers against those of torch, in float64, which their docstrings cite line by line."""

import numpy as np
import pytest
import torch

from tests.reference.optimizers import AdamW
from tests.reference.sgd import Optimizer

SHAPES = [(3, 4), (5,), (2, 3, 2, 2)]
STEPS = 20


def hold(mine, torchs, **of_vectors):
    """Step both with equal gradients and a changing rate; `torchs` makes torch's from groups of parameters.

    The second group has the vectors, and what is given for them.
    """
    numbers = np.random.default_rng(1)
    weights = [numbers.normal(size=shape) for shape in SHAPES]
    tensors = [torch.nn.Parameter(torch.tensor(weight)) for weight in weights]
    vectors = {"params": [t for t in tensors if t.dim() == 1]} | of_vectors
    theirs = torchs([{"params": [t for t in tensors if t.dim() > 1]}, vectors])
    for step in range(STEPS):
        rate = 0.1 / (1 + step)
        gradient = [numbers.normal(size=shape) for shape in SHAPES]
        for group in theirs.param_groups:
            group["lr"] = rate
        for tensor, its in zip(tensors, gradient, strict=True):
            tensor.grad = torch.tensor(its)
        theirs.step()
        weights = mine.step(weights, gradient, rate)
        for tensor, weight in zip(tensors, weights, strict=True):
            torch.testing.assert_close(tensor.detach(), torch.from_numpy(weight), rtol=0, atol=1e-13)


@pytest.mark.parametrize("beta1", [0.0, 0.8])
def test_adamw(beta1):
    """Tensors with at most one dimension have no decay in the benchmark; torch is told so by a group."""
    mine = AdamW(beta1, 0.99, 0.1)
    hold(
        mine,
        lambda groups: torch.optim.AdamW(groups, betas=(beta1, 0.99), weight_decay=0.1, foreach=False),
        weight_decay=0.0,
    )


@pytest.mark.parametrize(("momentum", "nesterov"), [(0.0, False), (0.9, False), (0.9, True)])
def test_sgd(momentum, nesterov):
    mine = Optimizer(momentum, 0.01, nesterov)
    how = {"momentum": momentum, "nesterov": nesterov, "weight_decay": 0.01, "foreach": False}
    hold(mine, lambda groups: torch.optim.SGD(groups, lr=0.1, **how))
