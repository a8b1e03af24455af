"""Tensors of one type as one flat tensor, and how all transports make a mean out of a sum.

Numbers of 16 bits are divided before they are added, because their sum may overflow where the mean does not.
All others are divided after it, once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from thinwire.traffic.payload import Payload
from thinwire.transport.call import Pending, Server


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


def _divided_first(tensors: list[Tensor]) -> bool:
    return tensors[0].element_size() == 2


def divide_before_sum(tensors: list[Tensor], size: int) -> None:
    """Divide tensors of one type by the number of workers, if that comes before they are added."""
    if _divided_first(tensors):
        torch._foreach_div_(tensors, size)


def shares(tensors: list[Tensor], size: int) -> list[Tensor]:
    """What a worker adds to the sum: its tensors, or new ones if they are divided first."""
    return list(torch._foreach_div(tensors, size)) if _divided_first(tensors) else tensors


def divide_after_sum(totals: list[Tensor], size: int) -> None:
    """Divide sums of one type by the number of workers, unless what was added has been divided."""
    if not _divided_first(totals):
        torch._foreach_div_(totals, size)


def mean_in_order(own: list[Tensor], others: list[list[Tensor]]) -> None:
    """Write the mean of everybody's tensors, of one type, into `own`, those of rank 0.

    Tensors are added in the order of the ranks, so that the rounding is the same every time.
    """
    size = 1 + len(others)
    divide_before_sum(own, size)
    for tensors in others:
        torch._foreach_add_(own, shares(tensors, size))
    divide_after_sum(own, size)


def flat_share(tensors: list[Tensor], pool: Pool, size: int) -> Tensor:
    """What a worker adds to the sum as one flat tensor, for an all-reduce in place.

    It is the only tensor itself if that is contiguous; otherwise it comes from the pool.
    """
    if is_flat(tensors):
        row = tensors[0].view(-1)
    else:
        row = pool.take(tensors)
        fill(row, tensors)
    divide_before_sum([row], size)
    return row


def write_mean(total: Tensor, tensors: list[Tensor], pool: Pool, size: int) -> None:
    """Write the mean into the tensors, from the all-reduced `flat_share`, and return that to the pool.

    The sum is divided while it is one tensor: on a GPU this is one kernel, however many tensors there are.
    """
    divide_after_sum([total], size)
    if not is_flat(tensors):
        torch._foreach_copy_(tensors, parts(total, tensors))
        pool.give_back(total)


class PartMean(Server):
    """Averages what is pushed and answers nothing: the mean stays on the worker of this server."""

    def __init__(self) -> None:
        super().__init__({})
        self.mean: Tensor

    def update(self, pushes: list[Payload]) -> Payload:
        """Keep the mean of the pushes."""
        first, *others = [list(push.values()) for push in pushes]
        (self.mean,) = own = [tensor.clone() for tensor in first]
        mean_in_order(own, others)
        return {}


class Reduced:
    """The mean of this worker's part, which may still be on its way."""

    def __init__(self, pushes: Sequence[Pending[object]], own: PartMean) -> None:
        self._pushes, self._own = pushes, own

    def wait(self) -> Tensor:
        """Wait for the mean, and return it."""
        for push in self._pushes:
            push.wait()
        return self._own.mean
