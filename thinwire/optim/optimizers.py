"""The optimizers that a recipe can name: LARS and Muon, and torch's."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from thinwire.optim.recipe import Optimizer


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
        options = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust}
        super().__init__(params, {**options, "lr_inside_momentum": lr_inside_momentum})

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


# Of the quintic polynomial a x + b x^3 + c x^5, which each Newton-Schulz step applies to the singular values.
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
NEWTON_SCHULZ_STEPS = 5
# Of a matrix's update, the root mean square that AdamW's updates usually have.
UPDATE_RMS = 0.2


class Muon(torch.optim.Optimizer):
    """Muon, with AdamW for the parameters that are no hidden matrices.

        m <- momentum m + (1 - momentum) g;  u = (1 - momentum) g + momentum m
        w <- (1 - lr weight_decay) w - lr 0.2 sqrt(max(rows, columns)) orthogonalised(u)

    Sources: Jordan et al., "Muon" (2024, kellerjordan.github.io/posts/muon; github KellerJordan/Muon, commit
    00ba60d): Nesterov's form of the momentum, five Newton-Schulz steps, weights of convolutions as matrices
    with one row for each output channel, and AdamW for all other parameters. Liu et al., "Muon is Scalable
    for LLM Training" (arXiv 2502.16982): the factor of the rate, so that one rate fits both optimizers, and
    weight decay. `torch.optim.Muon` has the same rule with `adjust_lr_fn="match_rms_adamw"`.

    It is not torch's, which refuses convolutions and rounds matrices to bfloat16. Here the steps have the
    precision of the weights, so that double precision shows whether two methods are the same.
    """

    def __init__(
        self,
        matrices: list[nn.Parameter],
        others: torch.optim.AdamW | None,
        lr: float,
        momentum: float,
        weight_decay: float,
    ) -> None:
        """Step matrices, with two dimensions or more; `others` steps what is left, also at this rate."""
        groups = (
            [{"params": matrices, "momentum": momentum, "weight_decay": weight_decay}] if matrices else []
        )
        if others is not None:
            groups += others.param_groups
        super().__init__(groups, {"lr": lr})
        self._others = others

    @torch.no_grad()
    def step(self, closure: object = None) -> None:  # type: ignore[override]
        """Take one step with the present gradients; `closure` is part of torch's interface and not used."""
        for group in self.param_groups:
            if "momentum" in group:
                for param in group["params"]:
                    if param.grad is not None:
                        self._step(param, param.grad, group)
        if self._others is not None:
            # Loading a state replaces both.
            self._others.param_groups = [group for group in self.param_groups if "momentum" not in group]
            self._others.state = self.state
            self._others.step()

    def _step(self, param: nn.Parameter, gradient: Tensor, group: dict[str, float]) -> None:
        state = self.state[param]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(param)
        mean = state["momentum_buffer"].lerp_(gradient, 1 - group["momentum"])
        matrix = gradient.lerp(mean, group["momentum"]).flatten(1)
        update = orthogonalised(matrix).view_as(param)
        param.mul_(1 - group["lr"] * group["weight_decay"])
        param.sub_(update, alpha=group["lr"] * UPDATE_RMS * math.sqrt(max(matrix.shape)))


def orthogonalised(matrix: Tensor) -> Tensor:
    """Return a matrix with nearly the same singular vectors, and singular values between about 0.7 and 1.2.

    Singular values that are many times smaller than the others stay smaller. Zeros stay zeros.
    """
    a, b, c = COEFFICIENTS
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if tall else matrix
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if tall else x


def make_optimizer(
    recipe: Optimizer, params: list[nn.Parameter], hidden: Sequence[bool] = ()
) -> torch.optim.Optimizer:
    """Return SGD, Adam or AdamW in torch's fused form, LARS, or Muon.

    The training loop sets the learning rate at every step. `hidden` tells Muon which parameters are hidden
    matrices.
    """
    lr, momentum, weight_decay = recipe.lr, recipe.momentum, recipe.weight_decay
    if recipe.name == "lars":
        return Lars(params, lr, momentum, weight_decay, recipe.trust, recipe.lr_inside_momentum)
    if recipe.name == "adamw":
        return _adamw(recipe, params)
    if recipe.name == "muon":
        matrices = [param for param, is_hidden in zip(params, hidden, strict=True) if is_hidden]
        others = [param for param, is_hidden in zip(params, hidden, strict=True) if not is_hidden]
        adamw = _adamw(recipe, others) if others else None
        return Muon(matrices, adamw, lr, momentum, weight_decay)
    if recipe.name == "adam":
        betas = (recipe.beta1, recipe.beta2)
        return torch.optim.Adam(params, lr=lr, betas=betas, weight_decay=weight_decay, fused=True)
    return torch.optim.SGD(
        params, lr, momentum, weight_decay=weight_decay, nesterov=recipe.nesterov, fused=True
    )


def _adamw(recipe: Optimizer, params: list[nn.Parameter]) -> torch.optim.AdamW:
    """Return AdamW with two groups: parameters with several dimensions decay, the others do not.

    Biases and normalisation have at most one dimension. Their decay would pull a layer's offset and scale
    towards zero, which limits no complexity. The dimensions decide and not `Param.kind`: they are also those
    of a copy that a parameter server keeps, and LARS asks for them, too.

    Source: Loshchilov & Hutter, "Decoupled Weight Decay Regularization" (arXiv 1711.05101). It decays all
    parameters. The groups are those of common training scripts for language models.
    """
    groups = [
        {"params": [param for param in params if param.dim() > 1], "weight_decay": recipe.weight_decay},
        {"params": [param for param in params if param.dim() <= 1], "weight_decay": 0.0},
    ]
    betas = (recipe.beta1, recipe.beta2)
    filled = [group for group in groups if group["params"]]
    return torch.optim.AdamW(filled, lr=recipe.lr, betas=betas, fused=True)
