"""A call: what one worker hands to a channel, and the pending answer to it."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import torch
from torch import Tensor

from thinwire.group import Group
from thinwire.parameter_server import Server
from thinwire.traffic import payload as payloads
from thinwire.traffic.payload import Payload

T = TypeVar("T")
# Is a server's `update` running? Servers may make no calls.
_serving = ContextVar("serving", default=False)

# In the description of a call, at most this many tensors are listed one by one.
_DESCRIBED = 4


def nbytes(tensors: list[Tensor]) -> int:
    """Bytes of the tensors' elements."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


@dataclass(slots=True)
class Call:
    """What one worker hands over in one call on a channel."""

    verb: str
    tensors: list[Tensor] = field(default_factory=list)
    payload: Payload = field(default_factory=dict)
    kind: str = ""
    partner: int = 0  # rank of a broadcast's source, of a server's worker, or of a message's other end
    key: str = ""
    server: Server | None = None
    ragged: bool = False  # may the payloads of the workers differ in size?
    fresh: bool = False  # is the mean written into new tensors instead of the given ones?

    def describe(self) -> str:
        """Describe the call in words; all members must make calls with the same description."""
        about = [self.kind, self.key]
        about += [f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for t in self.tensors[:_DESCRIBED]]
        if len(self.tensors) > _DESCRIBED:
            about.append(f"... {len(self.tensors)} tensors of {nbytes(self.tensors)} bytes")
        about += payloads.describe(self.payload, self.ragged)
        if self.ragged:
            about.append("ragged")
        if self.verb in ("broadcast", "push_pull", "send", "receive"):
            about.append(f"rank {self.partner}")
        return f"{self.verb}({', '.join(filter(None, about))})"

    def serve(self, pushes: list[Payload]) -> Payload:
        """Return the server's answer to all pushes; it may share memory with the server's state.

        Raises:
            MethodError: the answer is no valid payload.
        """
        assert self.server is not None
        token = _serving.set(True)
        try:
            with torch.no_grad():
                answer = self.server.update(pushes)
        finally:
            _serving.reset(token)
        return payloads.flat(answer, f"the workers by {type(self.server).__name__}.update")


def serving() -> bool:
    """Is a server's `update` running in this context?"""
    return _serving.get()


class Pending(Generic[T]):
    """An answer that may still be on its way."""

    __slots__ = ("_result", "_wait", "call", "done", "group")

    def __init__(self, group: Group, call: Call, wait: Callable[[Pending[T]], None]) -> None:
        self.group = group
        self.call = call
        self.done = False
        self._wait = wait  # given by the transport; returns when the answer is there
        self._result: T | None = None

    def complete(self, result: T) -> None:
        """Deliver the answer; called by the transport."""
        self._result = result
        self.done = True

    def wait(self) -> T:
        """Wait for the answer and return it."""
        self.group.unclaimed.discard(self)
        if not self.done:
            self._wait(self)
        return self._result  # type: ignore[return-value]
