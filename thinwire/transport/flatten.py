"""Tensors end to end, so that one operation carries them all."""

from collections.abc import Iterator

import torch
from torch import Tensor


def by_dtype(tensors: list[Tensor]) -> list[list[Tensor]]:
    """Those of one type together, in the order of their first."""
    groups: dict[torch.dtype, list[Tensor]] = {}
    for tensor in tensors:
        groups.setdefault(tensor.dtype, []).append(tensor)
    return list(groups.values())


def is_flat(tensors: list[Tensor]) -> bool:
    """Do they lie end to end already, because there is only one?"""
    return len(tensors) == 1 and tensors[0].is_contiguous()


def fill(flat: Tensor, tensors: list[Tensor]) -> None:
    """Write the tensors into `flat`, end to end."""
    torch.cat([tensor.reshape(-1) for tensor in tensors], out=flat)


def parts(flat: Tensor, like: list[Tensor]) -> list[Tensor]:
    """What lies in `flat`, in the shapes of `like`."""
    pieces = flat.split([tensor.numel() for tensor in like])
    return [piece.view(tensor.shape) for piece, tensor in zip(pieces, like)]


def in_lots(tensors: list[Tensor], size: int) -> Iterator[list[Tensor]]:
    """The numbers of the tensors in their order, as flat tensors, in lots of about `size` of them."""
    lot: list[Tensor] = []
    room = size
    for tensor in tensors:
        for piece in tensor.reshape(-1).split(size):
            lot.append(piece)
            room -= len(piece)
            if room <= 0:
                yield lot
                lot, room = [], size
    if lot:
        yield lot


class Pool:
    """Flat tensors that are used again: memory that is fresh at every step would be paged in every time."""

    def __init__(self) -> None:
        self._free: dict[tuple[torch.dtype, torch.device, int], list[Tensor]] = {}

    def take(self, like: list[Tensor]) -> Tensor:
        """A tensor with room for all of `like`, whatever it holds."""
        first, size = like[0], sum(tensor.numel() for tensor in like)
        free = self._free.get((first.dtype, first.device, size))
        return free.pop() if free else torch.empty(size, dtype=first.dtype, device=first.device)

    def give_back(self, flat: Tensor) -> None:
        """Nobody needs it any more."""
        self._free.setdefault((flat.dtype, flat.device, len(flat)), []).append(flat)
