"""The parameters of a model, in order, each with the kind of its layer."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

_KINDS = {
    nn.Conv1d: "conv",
    nn.Conv2d: "conv",
    nn.Conv3d: "conv",
    nn.Linear: "linear",
    nn.Embedding: "embedding",
}


@dataclass(frozen=True, eq=False)
class Param:
    """One parameter tensor of this worker's replica."""

    index: int  # counts from the input side; also the priority of what the forward pass needs first
    name: str
    kind: str  # conv, linear, embedding: a weight; norm: of a normalisation layer; bias: any other
    tensor: nn.Parameter

    @property
    def grad(self) -> Tensor:
        """Its gradient, of the shape of the tensor; zeros where the loss does not depend on it."""
        if self.tensor.grad is None:
            self.tensor.grad = torch.zeros_like(self.tensor)
        return self.tensor.grad


def parameters(model: nn.Module) -> list[Param]:
    """The trainable parameters of a model, from the input side; a tensor that is shared counts once."""
    kinds: dict[int, str] = {}
    for module in model.modules():
        kind = next((name for type_, name in _KINDS.items() if isinstance(module, type_)), "norm")
        for name, tensor in module.named_parameters(recurse=False):
            kinds[id(tensor)] = "bias" if name == "bias" and kind != "norm" else kind
    trainable = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    return [Param(i, name, kinds[id(p)], p) for i, (name, p) in enumerate(trainable)]
