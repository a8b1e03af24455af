"""The recipe's optimizer."""

import torch
from torch import nn

from thinwire.optim.lars import Lars
from thinwire.optim.recipe import Optimizer


def make_optimizer(recipe: Optimizer, params: list[nn.Parameter]) -> torch.optim.Optimizer:
    """Return SGD or Adam in torch's fused form, or LARS.

    The training loop sets the learning rate at every step.
    """
    if recipe.name == "lars":
        return Lars(
            params,
            lr=recipe.lr,
            momentum=recipe.momentum,
            weight_decay=recipe.weight_decay,
            trust=recipe.trust,
            lr_inside_momentum=recipe.lr_inside_momentum,
        )
    if recipe.name == "adam":
        betas = (recipe.beta1, recipe.beta2)
        return torch.optim.Adam(
            params, lr=recipe.lr, betas=betas, weight_decay=recipe.weight_decay, fused=True
        )
    return torch.optim.SGD(
        params,
        lr=recipe.lr,
        momentum=recipe.momentum,
        nesterov=recipe.nesterov,
        weight_decay=recipe.weight_decay,
        fused=True,
    )
