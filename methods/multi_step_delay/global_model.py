"""The global model z, which is the same on all workers, and the correction of the local one towards it."""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from thinwire import Run

from .options import Options
from .sub_tensors import part_of


class GlobalModel:
    def __init__(self, run: Run, config: Options, memory: dict[str, Any]) -> None:
        self.run, self.config, self.memory = run, config, memory
        memory |= {
            "global": [weight.clone() for weight in run.weights],  # z
            "velocity": [torch.zeros_like(weight) for weight in run.weights],  # v
            "mean": [torch.zeros_like(weight) for weight in run.weights],  # ghat
        }

    def local(self, part: Mapping[str, int]) -> Tensor:
        """A slice of this worker's weights x."""
        return part_of(self.run.weights, part)

    def update(self, note: dict[str, Any], arrived: Tensor) -> None:
        """Step with the mean over the workers of a slice of a round's sum; `note` is the message's."""
        options = self.run.optimizer.param_groups[0]
        v, z, mean = (part_of(self.memory[name], note) for name in ("velocity", "global", "mean"))
        # The directions of workers that have momentum have it already.
        momentum = 0.0 if self.config.local_momentum else options["momentum"]
        v.mul_(momentum).add_(arrived)
        z.sub_(arrived + momentum * v if options["nesterov"] else v, alpha=note["lr"])
        mean.copy_(arrived / note["length"])

    def after(self, messages: list[dict[str, Any]]) -> list[Tensor]:
        """z as these messages will leave it, in new tensors; changes nothing."""
        ahead = copy.copy(self)
        ahead.memory = {
            name: [tensor.clone() for tensor in self.memory[name]] for name in ("global", "velocity", "mean")
        }
        for message in messages:
            ahead.update(message["note"], message["answer"][0])
        return ahead.memory["global"]

    def correct_local(self, note: dict[str, Any]) -> None:
        """Move a slice of x towards z: by what z has changed since x was sent, or to z itself."""
        x, z = self.local(note), part_of(self.memory["global"], note)
        if "as_sent" in note:
            x.add_(z - note["as_sent"], alpha=self.config.at_sync)
        elif note["warming_up"]:
            x.copy_(z)
        else:
            x.copy_(z + (1 - self.config.at_sync) * (x - z))
