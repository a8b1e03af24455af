"""A call: what one worker hands to a channel, and the pending answer to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from thinwire.group import Group
from thinwire.parameter_server import Server
from thinwire.trace.recorder import (
    NO_CALL,
    SERVER,
    WAIT,
    Activity,
    RecordedCall,
    on_server_track,
    recorded,
    recording,
)
from thinwire.traffic import payload as payloads
from thinwire.traffic.payload import Payload, bytes_by_kind, nbytes

T_co = TypeVar("T_co", covariant=True)
# Is a server's `update` running? Servers may make no calls.
_serving = ContextVar("serving", default=False)

# In the description of a call, at most this many tensors are listed one by one.
_DESCRIBED = 4


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
    # May the payloads of the workers differ in size? The message tells the receiver.
    ragged: bool = False
    fresh: bool = False  # is the mean written into new tensors instead of the given ones?
    recorded: RecordedCall | None = None  # where the transport notes its times, if the worker is traced

    def describe(self, in_full: bool = True) -> str:
        """Describe the call in words; all members must make calls with the same description.

        Args:
            in_full: name the tensors, too, which may take longer than the call itself.
        """
        about = [self.kind, self.key]
        if in_full:
            shown = self.tensors[:_DESCRIBED]
            about += [f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for t in shown]
            if len(self.tensors) > _DESCRIBED:
                about.append(f"... {len(self.tensors)} tensors of {nbytes(self.tensors)} bytes")
            about += payloads.describe(self.payload, self.ragged)
        if self.ragged:
            about.append("ragged")
        if self.verb in ("broadcast", "push_pull", "send", "receive"):
            about.append(f"rank {self.partner}")
        return f"{self.verb}({', '.join(filter(None, about))})"

    def sent_bytes(self) -> dict[str, int]:
        """The bytes that the worker hands over, by kind."""
        return {self.kind: nbytes(self.tensors)} if self.tensors else bytes_by_kind(self.payload, self.ragged)

    def serve(self, pushes: list[Payload]) -> Payload:
        """Return the server's answer to all pushes; it may share memory with the server's state.

        Raises:
            MethodError: the answer is no valid payload.
        """
        assert self.server is not None
        token = _serving.set(True)
        # A thread of the transport has no recorder: it may not write between the spans of the worker.
        aside = self.recorded if recording.get() is None else None
        try:
            with nullcontext() if aside is None else on_server_track(aside):
                answer = _update(self.server, pushes)
        finally:
            _serving.reset(token)
        return payloads.flat(answer, f"the workers by {type(self.server).__name__}.update")


@recorded(SERVER)
@torch.no_grad()
def _update(server: Server, pushes: list[Payload]) -> Payload:
    return server.update(pushes)


def serving() -> bool:
    """Is a server's `update` running in this context?"""
    return _serving.get()


class Pending(Generic[T_co]):
    """An answer that may still be on its way."""

    __slots__ = ("_result", "_wait", "call", "done", "group", "number")

    def __init__(self, group: Group, call: Call, wait: Callable[[Pending[object]], None]) -> None:
        self.group = group
        self.call = call
        self.done = False
        self.number = NO_CALL  # among the recorded calls of the worker, if it is traced
        self._wait = wait  # given by the transport; returns when the answer is there
        self._result: object = None

    def complete(self, result: object) -> None:
        """Deliver the answer; called by the transport."""
        self._result = result
        self.done = True

    def wait(self) -> T_co:
        """Wait for the answer and return it."""
        self.group.unclaimed.discard(self)
        if self.number != NO_CALL:
            return self._wait_recorded()
        if not self.done:
            self._wait(self)
        return self._result  # type: ignore[return-value]

    def _wait_recorded(self) -> T_co:
        """Wait, and record for how long, and how large the answer is."""
        recorder = self.group.recorder
        assert recorder is not None
        before = recorder.switch(Activity(WAIT, self.call.verb, self.number))
        try:
            if not self.done:
                self._wait(self)
        finally:
            recorder.switch(before)
        made = recorder.calls[self.number]
        made.received_bytes = made.received_bytes or self.received_bytes()
        return self._result  # type: ignore[return-value]

    def received_bytes(self) -> dict[str, int]:
        """The size of the answer, which is there, by kind; of a gather, without this worker's own part."""
        answer: Any = self._result
        match self.call.verb:
            case "mean" | "broadcast":
                return {self.call.kind: nbytes(self.call.tensors)}
            case "gather":
                others = [payload for rank, payload in enumerate(answer) if rank != self.group.rank]
                received: Counter[str] = Counter()
                for payload in others:
                    received.update(bytes_by_kind(payload, self.call.ragged))
                return dict(received)
            case "push_pull" | "receive":
                return bytes_by_kind(answer, self.call.ragged)
        return {}
