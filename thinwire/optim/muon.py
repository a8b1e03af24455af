"""Muon for the hidden matrices of a model, and AdamW for its other parameters."""

import math

import torch
from torch import Tensor, nn

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
        """Create the optimizer.

        Args:
            matrices: the hidden matrices among the parameters, with two dimensions or more.
            others: what steps the other parameters; None: there are none.
            lr: the rate of both.
            momentum: of Muon.
            weight_decay: of Muon.
        """
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

    Args:
        matrix: with two dimensions.
    """
    a, b, c = COEFFICIENTS
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if tall else matrix
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if tall else x
