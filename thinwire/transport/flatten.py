"""Flatten tensors into one buffer, so that one operation transfers them all."""

from collections.abc import Iterator

import torch
from torch import Tensor


def by_dtype(tensors: list[Tensor]) -> list[list[Tensor]]:
    """Group tensors by type; the groups are in the order of their first tensors."""
    groups: dict[torch.dtype, list[Tensor]] = {}
    for tensor in tensors:
        groups.setdefault(tensor.dtype, []).append(tensor)
    return list(groups.values())


def is_flat(tensors: list[Tensor]) -> bool:
    """Is there only one tensor, which is already contiguous?"""
    return len(tensors) == 1 and tensors[0].is_contiguous()


def fill(flat: Tensor, tensors: list[Tensor]) -> None:
    """Write the tensors into `flat`, one after the other."""
    torch.cat([tensor.reshape(-1) for tensor in tensors], out=flat)


def parts(flat: Tensor, like: list[Tensor]) -> list[Tensor]:
    """Return views of `flat` in the shapes of `like`."""
    pieces = flat.split([tensor.numel() for tensor in like])
    return [piece.view(tensor.shape) for piece, tensor in zip(pieces, like)]


def in_chunks(tensors: list[Tensor], size: int) -> Iterator[list[Tensor]]:
    """Divide the elements of the tensors, in order, into chunks; each chunk is a list of flat views.

    A chunk has at least `size` elements (the last one may have fewer) and fewer than 2 `size`.
    """
    chunk: list[Tensor] = []
    missing = size
    for tensor in tensors:
        for piece in tensor.reshape(-1).split(size):
            chunk.append(piece)
            missing -= len(piece)
            if missing <= 0:
                yield chunk
                chunk, missing = [], size
    if chunk:
        yield chunk


class Pool:
    """Flat tensors that are reused, because fresh memory would have to be paged in at every step."""

    def __init__(self) -> None:
        self._free: dict[tuple[torch.dtype, torch.device, int], list[Tensor]] = {}

    def take(self, like: list[Tensor]) -> Tensor:
        """Return a flat tensor with room for all of `like`; its content is arbitrary."""
        first, size = like[0], sum(tensor.numel() for tensor in like)
        free = self._free.get((first.dtype, first.device, size))
        return free.pop() if free else torch.empty(size, dtype=first.dtype, device=first.device)

    def give_back(self, flat: Tensor) -> None:
        """Return a tensor to the pool when it is no longer used."""
        self._free.setdefault((flat.dtype, flat.device, len(flat)), []).append(flat)
