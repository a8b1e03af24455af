"""The residual: what a worker has accumulated and not sent yet, with its momentum correction."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from thinwire.codecs import sparse
from thinwire.codecs.select import SELECT
from thinwire.optim.recipe import Optimizer
from thinwire.traffic.payload import Payload

from .options import Options


class Residual:
    """The sum v (`unsent`) and the velocity u, each a list of tensors like the compressed weights."""

    def __init__(
        self, weights: Sequence[Tensor], optimizer: Optimizer, config: Options, memory: dict[str, Any]
    ) -> None:
        self.optimizer, self.config, self.memory = optimizer, config, memory
        memory["velocity"] = [torch.zeros_like(weight) for weight in weights]
        memory["unsent"] = [torch.zeros_like(weight) for weight in weights]
        self.corrects = optimizer.name == "sgd"  # Adam and AdamW have no momentum to correct

    def accumulate(self, gradients: list[Tensor]) -> None:
        """Momentum correction: the residual is the sum of the velocities."""
        torch._foreach_add_(self.memory["unsent"], self.with_momentum(gradients))

    def with_momentum(self, gradients: list[Tensor]) -> list[Tensor]:
        """The direction in which SGD would step with these gradients."""
        if not self.corrects:
            return gradients
        velocity, momentum = self.memory["velocity"], self.optimizer.momentum
        if self.optimizer.nesterov:
            torch._foreach_add_(velocity, gradients)
            torch._foreach_mul_(velocity, momentum)
            return list(torch._foreach_add(velocity, gradients))
        torch._foreach_mul_(velocity, momentum)
        torch._foreach_add_(velocity, gradients)
        return velocity

    def take_largest(self, density: float, generator: torch.Generator) -> Payload:
        """Take this share of each tensor's entries out of the residual; gives them as a payload."""
        unsent = self.memory["unsent"]
        chosen = sparse.choose(unsent, density, SELECT[self.config.selection], generator)
        taken = sparse.take(unsent, chosen, self.config.indices)
        if self.config.masking:
            sparse.erase(self.memory["velocity"], chosen)
        return taken
