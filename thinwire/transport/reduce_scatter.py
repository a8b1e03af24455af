"""A reduce-scatter as a series of pushes: the server of each worker averages the part that it keeps."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from thinwire.traffic.payload import Payload
from thinwire.transport import mean
from thinwire.transport.call import Pending, Server


class PartMean(Server):
    """Averages what is pushed and answers nothing: the mean stays on the worker of this server."""

    def __init__(self) -> None:
        super().__init__({})
        self.mean: Tensor

    def update(self, pushes: list[Payload]) -> Payload:
        """Add the pushes in the order of the ranks; see `thinwire.transport.mean` for numbers of 16 bits."""
        first, *others = [tensor for push in pushes for tensor in push.values()]
        total = [first.clone()]
        mean.divide_before_sum(total, len(pushes))
        for other in others:
            torch._foreach_add_(total, mean.shares([other], len(pushes)))
        mean.divide_after_sum(total, len(pushes))
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
