"""How all transports make a mean out of a sum; and a reduce-scatter as a series of pushes.

Numbers of 16 bits are divided before they are added, because their sum may overflow where the mean does not.
All others are divided after it, once.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from thinwire.traffic.payload import Payload
from thinwire.transport import wire_format
from thinwire.transport.call import Pending, Server


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


def flat_share(tensors: list[Tensor], pool: wire_format.Pool, size: int) -> Tensor:
    """What a worker adds to the sum as one flat tensor, for an all-reduce in place.

    It is the only tensor itself if that is contiguous; otherwise it comes from the pool.
    """
    if wire_format.is_flat(tensors):
        row = tensors[0].view(-1)
    else:
        row = pool.take(tensors)
        wire_format.fill(row, tensors)
    divide_before_sum([row], size)
    return row


def write_mean(total: Tensor, tensors: list[Tensor], pool: wire_format.Pool, size: int) -> None:
    """Write the mean into the tensors, from the all-reduced `flat_share`, and return that to the pool.

    The sum is divided while it is one tensor: on a GPU this is one kernel, however many tensors there are.
    """
    divide_after_sum([total], size)
    if not wire_format.is_flat(tensors):
        torch._foreach_copy_(tensors, wire_format.parts(total, tensors))
        pool.give_back(total)


class PartMean(Server):
    """Averages what is pushed and answers nothing: the mean stays on the worker of this server."""

    def __init__(self) -> None:
        super().__init__({})
        self.mean: Tensor

    def update(self, pushes: list[Payload]) -> Payload:
        """Add the pushes in the order of the ranks."""
        first, *others = [tensor for push in pushes for tensor in push.values()]
        total = [first.clone()]
        divide_before_sum(total, len(pushes))
        for other in others:
            torch._foreach_add_(total, shares([other], len(pushes)))
        divide_after_sum(total, len(pushes))
        (self.mean,) = total
        return {}


class Reduced:
    """The mean of this worker's part, which may still be on its way."""

    def __init__(self, pushes: list[Pending[Any]], own: PartMean) -> None:
        self._pushes, self._own = pushes, own

    def wait(self) -> Tensor:
        """Wait for the mean, and return it."""
        for push in self._pushes:
            push.wait()
        return self._own.mean
