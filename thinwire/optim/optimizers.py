"""The optimizers that a recipe can name, and the schedule `plateau`, which follows the training loss."""

import math
from collections.abc import Sequence

import torch
from torch import nn

from thinwire.optim.muon import Muon
from thinwire.optim.recipe import Optimizer, Schedule


class Lars(torch.optim.Optimizer):
    """LARS: layer-wise adaptive rate scaling.

        d = ratio (g + weight_decay w), ratio = trust |w| / (|g| + weight_decay |w|), for each tensor
        v <- momentum v + lr d, w <- w - v

    Source: You, Gitman & Ginsburg, "Large Batch Training of Convolutional Networks" (arXiv 1708.03888). In
    the paper the learning rate is inside the momentum, as above. Most implementations have it outside (v <-
    momentum v + d, w <- w - lr v). Both are the same only while the rate does not change.

    Where |w| or |g| is zero, the paper says nothing and implementations differ; here the ratio is 1. Tensors
    with at most one dimension (biases, normalisation) take plain SGD steps, without ratio and without weight
    decay. Some implementations do so, too; the paper scales these tensors like all others. The state has the
    momentum under torch's usual name, `momentum_buffer`.
    """

    def __init__(
        self,
        params: list[nn.Parameter],
        lr: float,
        momentum: float,
        weight_decay: float,
        trust: float,
        lr_inside_momentum: bool,
    ) -> None:
        options = {
            "lr": lr,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "trust": trust,
            "lr_inside_momentum": lr_inside_momentum,
        }
        super().__init__(params, options)

    @torch.no_grad()
    def step(self, closure: object = None) -> None:  # type: ignore[override]
        """Take one step with the present gradients; `closure` is part of torch's interface and not used."""
        for group in self.param_groups:
            inside, outside = (group["lr"], 1.0) if group["lr_inside_momentum"] else (1.0, group["lr"])
            for param in group["params"]:
                if param.grad is None:
                    continue
                state = self.state[param]
                if "momentum_buffer" not in state:
                    state["momentum_buffer"] = torch.zeros_like(param)
                velocity = state["momentum_buffer"]
                direction = _direction(param, param.grad, group["weight_decay"], group["trust"])
                velocity.mul_(group["momentum"]).add_(direction, alpha=inside)
                param.sub_(velocity, alpha=outside)


def _direction(
    weight: torch.Tensor, gradient: torch.Tensor, weight_decay: float, trust: float
) -> torch.Tensor:
    """Return d of the formula of `Lars`; for tensors with at most one dimension, the gradient itself."""
    if weight.dim() <= 1:
        return gradient
    weight_norm, gradient_norm = weight.norm(), gradient.norm()
    ratio = trust * weight_norm / (gradient_norm + weight_decay * weight_norm)
    ratio = torch.where((weight_norm > 0) & (gradient_norm > 0), ratio, 1.0)
    return ratio * (gradient + weight_decay * weight)


def make_optimizer(
    recipe: Optimizer, params: list[nn.Parameter], hidden: Sequence[bool] = ()
) -> torch.optim.Optimizer:
    """Return SGD, Adam or AdamW in torch's fused form, LARS, or Muon.

    The training loop sets the learning rate at every step.

    Args:
        recipe: names the optimizer and its options.
        params: what the optimizer changes.
        hidden: of each parameter, whether it is a hidden matrix; only Muon asks.
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
    if recipe.name == "adamw":
        return _adamw(recipe, params)
    if recipe.name == "muon":
        matrices = [param for param, is_hidden in zip(params, hidden, strict=True) if is_hidden]
        others = [param for param, is_hidden in zip(params, hidden, strict=True) if not is_hidden]
        adamw = _adamw(recipe, others) if others else None
        return Muon(matrices, adamw, recipe.lr, recipe.momentum, recipe.weight_decay)
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


def _adamw(recipe: Optimizer, params: list[nn.Parameter]) -> torch.optim.AdamW:
    """Return AdamW with two groups: parameters with several dimensions decay, the others do not.

    Biases and normalisation have at most one dimension. Their decay would pull a layer's offset and scale
    towards zero, which limits no complexity. The dimensions decide and not `Param.kind`: they are also those
    of a copy that a parameter server keeps, and LARS asks for them, too.

    Source: Loshchilov & Hutter, "Decoupled Weight Decay Regularization" (arXiv 1711.05101). It decays all
    parameters. The groups are those of common training scripts for language models.
    """
    decayed = [param for param in params if param.dim() > 1]
    others = [param for param in params if param.dim() <= 1]
    groups = [
        {"params": decayed, "weight_decay": recipe.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    betas = (recipe.beta1, recipe.beta2)
    filled = [group for group in groups if group["params"]]
    return torch.optim.AdamW(filled, lr=recipe.lr, betas=betas, fused=True)


class Plateau:
    """What is left of the learning rate, which falls whenever the training loss has stopped falling.

    Source: `torch.optim.lr_scheduler.ReduceLROnPlateau` (mode min, threshold mode rel, no cooldown, no lowest
    rate). This has the same rule without an optimizer, so that its state is three numbers.
    """

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._lowest = math.inf
        self._epochs_since_lowest = 0
        self.scale = 1.0
        """The factor of the rate, from 1 down."""

    def end_epoch(self, loss: float) -> None:
        """Take in the mean loss of an epoch, in nats."""
        self._epochs_since_lowest += 1
        if loss < self._lowest * (1 - self._schedule.threshold):
            self._lowest, self._epochs_since_lowest = loss, 0
        if self._epochs_since_lowest > self._schedule.patience:
            self.scale *= self._schedule.factor
            self._epochs_since_lowest = 0

    def state(self) -> list[float]:
        """Everything that it needs to resume."""
        return [self._lowest, self._epochs_since_lowest, self.scale]

    def load(self, state: list[float]) -> None:
        """Restore a saved state."""
        lowest, since, scale = state
        self._lowest, self._epochs_since_lowest, self.scale = lowest, int(since), scale
