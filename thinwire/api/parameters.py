"""The parameters of a model in order, and the buckets in which they are sent."""

from dataclasses import dataclass, field

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
    hidden: bool
    """Is it a hidden matrix, as Muon asks? So are weights of kind `conv` and `linear`. Exceptions are the
    head, which is the last layer with parameters of its own, and weights that an embedding shares."""

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
    outer = _outer(model)
    return [
        Param(i, name, kinds[id(p)], p, hidden=kinds[id(p)] in ("conv", "linear") and id(p) not in outer)
        for i, (name, p) in enumerate(trainable)
    ]


def _outer(model: nn.Module) -> set[int]:
    """The ids of the parameters of embeddings and of the head; a head that is an embedding has no layer."""
    layers = [m for m in model.modules() if next(m.parameters(recurse=False), None) is not None]
    outer = [m for m in layers if isinstance(m, nn.Embedding)] + layers[-1:]
    return {id(p) for module in outer for p in module.parameters(recurse=False)}


@dataclass(eq=False)
class Bucket:
    """Parameters whose gradients are sent together, as soon as all of them are complete."""

    params: list[Param]
    """From the output side to the input side."""
    _missing: int = field(init=False)

    def __post_init__(self) -> None:
        self._missing = len(self.params)

    @property
    def gradients(self) -> list[Tensor]:
        """The gradients, in the order of `params`."""
        return [param.grad for param in self.params]

    def arrived(self) -> bool:
        """Count one gradient. If it completes the bucket, return True and start the count again."""
        self._missing -= 1
        if self._missing:
            return False
        self._missing = len(self.params)
        return True


def in_buckets(params: list[Param], cap_mb: float) -> list[Bucket]:
    """Divide the parameters into buckets, from the output side to the input side.

    A tensor that is larger than `cap_mb` gets a bucket of its own.

    Args:
        params: from the input side to the output side.
        cap_mb: the largest size of a bucket in megabytes (2^20 bytes).
    """
    buckets: list[list[Param]] = []
    free_bytes = 0.0
    for param in reversed(params):
        size = param.tensor.numel() * param.tensor.element_size()
        if not buckets or size > free_bytes:
            buckets.append([])
            free_bytes = cap_mb * 2**20
        buckets[-1].append(param)
        free_bytes -= size
    return [Bucket(params) for params in buckets]
