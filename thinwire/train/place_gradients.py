"""Moves gradients into memory that the workers of a node share, so that their mean needs no copy.

Autograd cannot compute a gradient at a place that is given: it would add it to zeros there, and -0.0 would
become 0.0. So a gradient is copied as soon as it is complete, while it is still in the cache.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from thinwire.parameters import Param


def place_gradients(
    params: Sequence[Param], shared_like: Callable[[Sequence[Tensor]], list[Tensor] | None]
) -> None:
    """Hook the parameters of a worker so that their gradients move, if the workers of its node share memory.

    The places follow each other from the output side to the input side, as the gradients of a bucket do.
    Register other hooks of gradients afterwards, so that they find a gradient at its place.

    Args:
        params: from the input side to the output side.
        shared_like: returns tensors with these shapes in shared memory, or None.
    """
    tensors = [param.tensor for param in reversed(params)]
    for tensor, place in zip(tensors, shared_like(tensors) or ()):
        tensor.register_post_accumulate_grad_hook(_moves_to(place))


def _moves_to(place: Tensor) -> Callable[[Tensor], None]:
    free = _references(place)

    def move(parameter: Tensor) -> None:
        # A method may keep an earlier gradient, or let it be sent. Then this one stays where it is.
        if parameter.grad is not None and _references(place) == free:
            place.copy_(parameter.grad)
            # Another tensor with this storage: who keeps it refers to the storage.
            parameter.grad = place.view_as(place)

    return move


def _references(tensor: Tensor) -> int:
    """How many tensors refer to the storage of this one; a larger number if something else does, too."""
    return torch._C._storage_Use_Count(tensor.untyped_storage()._cdata)
