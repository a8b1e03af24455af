"""The recipe's optimizer."""

import torch
from torch import nn

from thinwire.optim.recipe import Sgd


def make_optimizer(recipe: Sgd, params: list[nn.Parameter]) -> torch.optim.Optimizer:
    """SGD on `params`, in torch's fused form; the training loop sets the learning rate every step."""
    return torch.optim.SGD(
        params,
        lr=recipe.lr,
        momentum=recipe.momentum,
        nesterov=recipe.nesterov,
        weight_decay=recipe.weight_decay,
        fused=True,
    )
