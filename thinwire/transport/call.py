"""One communication call: who takes part, what it does, and the answer that has not come yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch
from torch import Tensor

from thinwire.base.errors import MethodError
from thinwire.trace.recorder import (
    NO_CALL,
    SERVER,
    WAIT,
    Activity,
    RecordedCall,
    Recorder,
    on_server_track,
    recorded,
    recording,
)
from thinwire.traffic import payload as payloads
from thinwire.traffic.payload import Payload, bytes_by_kind, nbytes
from thinwire.traffic.wire_bytes import Ledger, Wire

if TYPE_CHECKING:
    from concurrent.futures import Future

    from torch.distributed import Work


def channel_key(name: str, members: Sequence[int]) -> str:
    """Tells a channel from all others, such as the `node` of one node from that of another."""
    return f"{name}/{members[0]}"


class Group:
    """One worker as a member of a group. A *rank* is a member's place in the group."""

    def __init__(
        self, name: str, members: tuple[int, ...], nodes: tuple[int, ...], worker: int, ledger: Ledger
    ) -> None:
        """Describe the group.

        Args:
            name: of its channel.
            members: the workers, in the order of their ranks.
            nodes: the node of each member.
            worker: the member that this object stands for.
            ledger: of that member.
        """
        self.name = name
        self.members = members
        self.nodes = nodes
        self.size = len(members)
        self.rank = members.index(worker)
        self.key = channel_key(name, members)
        self.calls = 0  # how many collective calls this member has made
        self.unclaimed: set[Pending[object]] = set()  # pending answers that nobody has waited for yet
        self.recorder: Recorder | None = None  # of that member, if it is traced
        # What servers on this member have answered, in words; see `Call.asked`.
        self.answers: dict[tuple[str, ...], list[str]] = {}
        self._ledger = ledger

    def meter(self, verb: str, kind: str, push: int, pull: int, passed: Wire) -> None:
        """Enter traffic in the ledger, in bytes."""
        self._ledger.add(self.name, verb, kind, push, pull, passed)


class Server:
    """The base class of every parameter server.

    Each worker creates a copy of the server; `Channel.push_pull` uses the copy on one of the workers. A
    server may make no calls on a channel.
    """

    def __init__(self, memory: dict[str, Any]) -> None:
        """Create the server.

        Args:
            memory: a dictionary inside the method's `memory`, so that checkpoints contain the server's state.
        """
        self.memory = memory

    def update(self, pushes: list[Payload]) -> Payload:
        """Return the answer, which all workers receive.

        Called once for each `Channel.push_pull`, when all workers have pushed.

        Args:
            pushes: the payloads of all workers, in the order of the ranks; they must not be changed.
        """
        raise NotImplementedError


T_co = TypeVar("T_co", covariant=True)
# Waits for a call that has begun, and returns its answer.
Finish = Callable[[], object]
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
    answers: dict[tuple[str, ...], list[str]] | None = None  # of the channel: see `Group.answers`
    together: Together | None = None  # the series of pushes to which it belongs, if any
    place: int = 0  # in that series, from 0
    # May the payloads of the workers differ in size? The message tells the receiver.
    ragged: bool = False
    fresh: bool = False  # is the mean written into new tensors instead of the given ones?
    after: Sequence[Pending[object]] = ()  # it begins when these calls of its channel have ended
    begun: Future[list[Work]] | None = None  # set by a transport that begins calls in turn; see `InTurn`
    recorded: RecordedCall | None = None  # where the transport notes its times, if the worker is traced

    def describe(self, in_full: bool = True) -> str:
        """Describe the call in words; all members must make calls with the same description.

        In full, with the tensors, it may take longer than the call itself.
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
        if self.together is not None:
            about.append(f"number {self.place + 1} of {'parts' if self.together.reduces else 'pushes'}")
        if self.verb in ("broadcast", "push_pull", "send", "receive"):
            about.append(f"rank {self.partner}")
        return f"{self.verb}({', '.join(filter(None, about))})"

    def sent_bytes(self) -> dict[str, int]:
        """The bytes that the worker hands over, by kind."""
        return {self.kind: nbytes(self.tensors)} if self.tensors else bytes_by_kind(self.payload, self.ragged)

    def asked(self) -> tuple[str, ...]:
        """What decides the sizes of an answer that is not ragged: the key, and what each worker pushes."""
        return self.key, *payloads.describe(self.payload, self.ragged)

    def serve(self, pushes: list[Payload]) -> Payload:
        """Return the server's answer to all pushes; it may share memory with the server's state.

        Raises:
            MethodError: the answer is no valid payload, or its sizes are not those of an earlier answer.
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
        answer = payloads.flat(answer, f"the workers by {type(self.server).__name__}.update")
        if self.answers is not None and not self.ragged:
            self._require_known(payloads.describe(answer, ragged=False), self.answers)
        return answer

    def _require_known(self, answer: list[str], earlier: dict[tuple[str, ...], list[str]]) -> None:
        """Check that the receivers know the sizes of an answer, from the first one."""
        first = earlier.setdefault(self.asked(), answer)
        if answer != first:
            raise MethodError(
                f"{type(self.server).__name__}.update has answered {', '.join(answer) or 'nothing'} to key "
                f"{self.key!r}, and {', '.join(first) or 'nothing'} to equal pushes before: say "
                "ragged=True, or give each server a key of its own"
            )


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
        call = self.call
        match self._result:
            case dict() as payload:
                return bytes_by_kind(payload, call.ragged)
            case list() as everybody if call.verb == "gather":
                received: Counter[str] = Counter()
                for rank, payload in enumerate(everybody):
                    if rank != self.group.rank:
                        received.update(bytes_by_kind(payload, call.ragged))
                return dict(received)
            case list():
                return {call.kind: nbytes(call.tensors)}
        return {}


# By call: the bytes that the members have pushed, by kind, and the answer.
Outcomes = list[tuple[dict[str, list[int]], Payload]]


class Together:
    """Pushes that a worker posts one after the other, before it waits for any of them.

    On a GPU each exchange costs the host several launches, so the transport between GPUs carries such pushes
    in one. All other transports carry each as soon as it is posted.
    """

    def __init__(self, reduces: bool = False) -> None:
        self.calls: list[Call] = []
        # Is it a reduce-scatter? Then call j goes to rank j, whose server is a `PartMean`.
        self.reduces = reduces
        # Set by a transport that carries them as one; returns the function that waits for all of them.
        self.carry: Callable[[Together], Callable[[], Outcomes]] | None = None
        self.wait: Callable[[], Outcomes]

    def close(self) -> None:
        """End the series: all of its calls are posted."""
        if self.carry is not None:
            self.wait = self.carry(self)
