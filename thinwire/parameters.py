"""The trainable parameters of a model, in order, each with its kind."""

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

    index: int
    """Its number: 0 is the parameter nearest to the input, which the forward pass uses first."""
    name: str
    """Its name in the model."""
    kind: str
    """`conv`, `linear` or `embedding` for the weight of such a layer, and `bias` for its bias. `norm` for any
    parameter of another layer; in all models here, such a layer is a normalisation."""
    tensor: nn.Parameter
    """The tensor itself."""

    @property
    def grad(self) -> Tensor:
        """Its gradient, of the tensor's shape; zeros if the loss does not depend on the parameter."""
        if self.tensor.grad is None:
            self.tensor.grad = torch.zeros_like(self.tensor)
        return self.tensor.grad


def parameters(model: nn.Module) -> list[Param]:
    """Return the trainable parameters of a model, from the input side; a shared tensor occurs once."""
    kinds: dict[int, str] = {}
    for module in model.modules():
        kind = next((name for type_, name in _KINDS.items() if isinstance(module, type_)), "norm")
        for name, tensor in module.named_parameters(recurse=False):
            kinds[id(tensor)] = "bias" if name == "bias" and kind != "norm" else kind
    trainable = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    return [Param(i, name, kinds[id(p)], p) for i, (name, p) in enumerate(trainable)]
