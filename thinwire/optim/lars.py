"""LARS: layer-wise adaptive rate scaling.

    d = ratio (g + weight_decay w), ratio = trust |w| / (|g| + weight_decay |w|), for each tensor
    v <- momentum v + lr d, w <- w - v

Source: You, Gitman & Ginsburg, "Large Batch Training of Convolutional Networks" (arXiv 1708.03888). In the
paper the learning rate is inside the momentum, as above. Most implementations have it outside (v <- momentum
v + d, w <- w - lr v). Both are the same only while the rate does not change.

Where |w| or |g| is zero, the paper says nothing and implementations differ; here the ratio is 1. Tensors with
at most one dimension (biases, normalisation) take plain SGD steps, without ratio and without weight decay.
Some implementations do so, too; the paper scales these tensors like all others.
"""

import torch
from torch import nn


class Lars(torch.optim.Optimizer):
    """LARS on `params`; the state has the momentum under torch's usual name, `momentum_buffer`."""

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
    """Return d of the formula above; for tensors with at most one dimension, the gradient itself."""
    if weight.dim() <= 1:
        return gradient
    weight_norm, gradient_norm = weight.norm(), gradient.norm()
    ratio = trust * weight_norm / (gradient_norm + weight_decay * weight_norm)
    ratio = torch.where((weight_norm > 0) & (gradient_norm > 0), ratio, 1.0)
    return ratio * (gradient + weight_decay * weight)
