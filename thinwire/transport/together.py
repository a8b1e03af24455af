"""Pushes that a worker posts one after the other, before it waits for any of them.

On a GPU each exchange costs the host several launches, so the transport between GPUs carries such pushes in
one. All other transports carry each as soon as it is posted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from thinwire.traffic.payload import Payload
from thinwire.transport import mean
from thinwire.transport.call import Call, Pending, Server

# By call: the bytes that the members have pushed, by kind, and the answer.
Outcomes = list[tuple[dict[str, list[int]], Payload]]


class Together:
    """Calls of one channel that a transport may carry as one."""

    def __init__(self, reduces: bool = False) -> None:
        """Begin with no call.

        Args:
            reduces: is it a reduce-scatter? Then call j goes to rank j, whose server is a `PartMean`.
        """
        self.calls: list[Call] = []
        self.reduces = reduces
        # Set by a transport that carries them as one; returns the function that waits for all of them.
        self.carry: Callable[[Together], Callable[[], Outcomes]] | None = None
        self.wait: Callable[[], Outcomes]

    def close(self) -> None:
        """End the series: all of its calls are posted."""
        if self.carry is not None:
            self.wait = self.carry(self)


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
