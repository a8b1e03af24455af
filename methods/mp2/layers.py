"""Splits a model into the layers that MP2 pushes and predicts, and turns layers into vectors and back."""

from collections.abc import Sequence
from itertools import groupby
from math import prod

import torch
from torch import Tensor, nn

from thinwire import Model, Param
from thinwire.api.parameters import parameters

EVERYTHING = 1000  # stages: more than any model has
Layer = list[Param]
Shapes = list[torch.Size]  # of a layer's tensors


def why_not(model: Model, pushed_stages: int) -> str | None:
    """Why MP2 cannot run on this model, in one clause, or None."""
    try:
        model.stages()
    except (AttributeError, NotImplementedError):
        return "the model does not say how it splits into stages"
    pushed, predicted = split(model, pushed_stages)
    if [p.name for layer in (*pushed, *predicted) for p in layer] != [p.name for p in parameters(model)]:
        return "the model's stages do not come in the order of its layers"
    if not pushed:
        return f"the model's first {pushed_stages} stages have no parameters to push"
    if any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules()):
        return "the model has batch norm, which it cannot predict: take one without, as it was published"
    if not predicted:
        if pushed_stages >= EVERYTHING:
            return None
        return (
            f"the model's first {pushed_stages} stages are all of it, so nothing is left to predict (its "
            f"authors' baseline has pushed_stages: {EVERYTHING})"
        )
    foreign = {param.name for layer in predicted for param in layer}
    foreign -= {p.name for p in parameters(model) if p.kind in ("conv", "linear", "bias")}
    if foreign:
        return f"it predicts convolutions and linear layers, and {min(foreign)} is of neither"
    return None


def split(model: Model, pushed_stages: int) -> tuple[list[Layer], list[Layer]]:
    """The layers before stage `pushed_stages` (from 0), and the others. A layer is a list of Params."""
    stages = model.stages()[:pushed_stages]
    pushed = {id(p) for stage in stages for module in stage for p in module.parameters()}
    groups = groupby(parameters(model), key=lambda param: param.name.rpartition(".")[0])
    layers = [list(params) for _, params in groups]
    return (
        [layer for layer in layers if id(layer[0].tensor) in pushed],
        [layer for layer in layers if id(layer[0].tensor) not in pushed],
    )


def shapes_of(layers: Sequence[Layer]) -> list[Shapes]:
    """The shapes of each layer's tensors: its weight, and its bias if it has one."""
    return [[param.tensor.shape for param in layer] for layer in layers]


def flatten(tensors: Sequence[Tensor]) -> Tensor:
    """A layer's tensors as one vector: the weight (out, in, kernel) as kernel, in, out; then the bias.

    The authors' code predicts a convolution's values in this order. The tensors of a normalisation layer,
    which may be pushed, keep their order.
    """
    weight, *bias = tensors
    if weight.dim() < 2:
        return torch.cat([tensor.reshape(-1) for tensor in tensors])
    return torch.cat([weight.permute(*range(2, weight.dim()), 1, 0).reshape(-1), *bias])


def unflatten(vector: Tensor, shapes: Shapes) -> list[Tensor]:
    """The inverse of `flatten`: the tensors of a layer, with these shapes."""
    if len(shapes[0]) < 2:
        return [part.view(shape) for part, shape in zip(vector.split(list(map(prod, shapes))), shapes)]
    (outputs, inputs, *kernel), *bias = shapes
    dims = len(kernel)
    weight = vector[: prod(shapes[0])].view(*kernel, inputs, outputs).permute(dims + 1, dims, *range(dims))
    return [weight, vector[prod(shapes[0]) :]] if bias else [weight]


def flatten_all(layers: Sequence[Sequence[Tensor]]) -> Tensor:
    """All layers, each a list of tensors, as one vector."""
    return torch.cat([flatten(tensors) for tensors in layers])


def unflatten_all(vector: Tensor, shapes: list[Shapes]) -> list[Tensor]:
    """The inverse of `flatten_all`: the tensors of all layers, in their order."""
    sizes = [sum(map(prod, shapes_of_one)) for shapes_of_one in shapes]
    return [t for part, s in zip(vector.split(sizes), shapes) for t in unflatten(part, s)]
