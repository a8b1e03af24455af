"""Channels: the only way from one worker to another. All traffic on them is metered.

A channel connects the workers of a group. A worker's *rank* is its place in that group. A *verb* is a way to
communicate. Each takes tensors and returns a `Pending` at once. Its `wait()` returns the answer. Until
`wait()` returns, the method must neither read nor change these tensors. It must never write to the answers of
`gather` and `push_pull`, because several workers may share them. Payloads consist of flat tensors: see
`thinwire.traffic.payload`.

All members of a group call the same verbs in the same order. Only `send` and `receive` are matched in pairs.
A method may make calls from the first step on, in the hooks that belong to training; see
`thinwire.api.method.Method`.
"""

from collections.abc import Callable, Iterable, Sequence
from time import perf_counter_ns
from typing import Any, TypeVar

from torch import Tensor

from thinwire.base.errors import MethodError
from thinwire.trace.recorder import TRANSPORT, Activity, RecordedCall, Recorder
from thinwire.traffic import payload as payloads
from thinwire.traffic.payload import Payload
from thinwire.traffic.wire_bytes import Ledger, Wire
from thinwire.transport.call import Call, Group, Pending, Server, Together, serving
from thinwire.transport.flat_tensors import PartMean, Reduced
from thinwire.transport.interface import Transport


def hosting_rank(key: int | str, size: int) -> int:
    """The rank of the worker that hosts the server of `key`, in a channel of `size` workers."""
    return key % size if isinstance(key, int) else sum(key.encode()) % size


T = TypeVar("T")


class Channel(Group):
    """One worker's end of a channel; its ledger records the traffic."""

    def __init__(
        self,
        name: str,
        members: tuple[int, ...],
        nodes: tuple[int, ...],
        worker: int,
        transport: Transport,
        ledger: Ledger,
    ) -> None:
        super().__init__(name, members, nodes, worker, ledger)
        # Empty while calls are allowed; otherwise the end of a message that says when they are allowed.
        self.shut = ""
        self._transport = transport

    def mean(
        self, tensors: list[Tensor], kind: str = "values", after: Sequence[Pending[object]] = ()
    ) -> Pending[list[Tensor]]:
        """Write the mean over the workers into `tensors`.

        Args:
            tensors: tensors of any shapes; all workers pass the same shapes.
            kind: the kind under which the ledgers count the bytes; see `thinwire.traffic.wire_bytes`.
            after: calls of this channel. The transport holds this one, and all later ones, back until these
                have ended. The worker does not wait for that.
        """
        where = f"run.{self.name}.mean"
        tensors = payloads.plain(tensors, where)
        if any(pending.group is not self for pending in after):
            raise MethodError(f"{where} was called after a call of another channel: name calls of this one")
        return self._post(Call("mean", tensors=tensors, kind=payloads.known(kind, where), after=after))

    def gather(self, payload: Payload, ragged: bool = False) -> Pending[list[Payload]]:
        """Return everybody's payload, in the order of the ranks.

        Args:
            payload: flat tensors by kind; all workers pass the same kinds, in the same order, with the same
                types.
            ragged: must be true if sizes may differ between workers. Then the sizes are sent and counted too.
        """
        payload = payloads.flat(payload, f"run.{self.name}.gather")
        return self._post(Call("gather", payload=payload, ragged=ragged))

    def broadcast(self, tensors: list[Tensor], source: int, kind: str = "weights") -> Pending[list[Tensor]]:
        """Write the tensors of one worker into everybody's.

        Args:
            tensors: tensors of any shapes; all workers pass the same shapes.
            source: the rank, in this channel, of the worker whose tensors are sent.
            kind: the kind under which the ledgers count the bytes; see `thinwire.traffic.wire_bytes`.
        """
        where = f"run.{self.name}.broadcast"
        tensors = payloads.plain(tensors, where)
        source = self._known_rank(source, "broadcast", "source")
        return self._post(
            Call("broadcast", tensors=tensors, kind=payloads.known(kind, where), partner=source)
        )

    def push_pull(
        self, key: int | str, payload: Payload, server: Server, ragged: bool = False
    ) -> Pending[Payload]:
        """Push `payload` to the parameter server of `key` and pull its answer.

        Args:
            key: decides which worker hosts the server; numbers and strings are spread over the workers.
            payload: flat tensors by kind.
            server: this worker's copy of the server; only the copy on the chosen worker is used.
            ragged: must be true if the receiver cannot know the sizes of payloads or of answers. It knows
                those of an answer if earlier ones to this key, and to pushes of these sizes, had them too.
        """
        return self._push(key, payload, server, ragged)

    def push_pulls(
        self, pushes: Iterable[tuple[int | str, Payload, Server]], ragged: bool = False
    ) -> list[Pending[Payload]]:
        """Make several `push_pull` calls; GPUs exchange all their pushes at once, and then all answers.

        All members must make the same calls in one series.

        Args:
            pushes: the key, the payload and the server of each call. An iterator may compute a payload while
                earlier ones are on their way, except between GPUs.
            ragged: as for `push_pull`, of all of them.
        """
        together = Together()
        pending = [self._push(*push, ragged, together) for push in pushes]
        together.close()
        return pending

    def reduce_scatter(self, parts: list[Tensor], kind: str = "values") -> Reduced:
        """Give each worker the mean of one part over the workers: that of part j to rank j.

        It is made of pushes, part j to a server on rank j, and is recorded and counted as such. GPUs carry it
        as one reduce-scatter. The parts stay as they are.

        Args:
            parts: as many flat tensors of one type as the channel has members. All workers pass the same
                sizes.
            kind: the kind under which the ledgers count the bytes; see `thinwire.traffic.wire_bytes`.

        Returns:
            What to wait for in the same step; the answer is a new tensor.
        """
        if len(parts) != self.size or len({part.dtype for part in parts}) > 1:
            raise MethodError(
                f"run.{self.name}.reduce_scatter was called with {len(parts)} parts: pass one for each of "
                f"the {self.size} members, all of one type"
            )
        together, means = Together(reduces=True), [PartMean() for _ in parts]
        pushes = [
            self._push(rank, {kind: part}, server, False, together)
            for rank, (part, server) in enumerate(zip(parts, means))
        ]
        together.close()
        return Reduced(pushes, means[self.rank])

    def _push(
        self,
        key: int | str,
        payload: Payload,
        server: Server,
        ragged: bool,
        together: Together | None = None,
    ) -> Pending[Payload]:
        payload = payloads.flat(payload, f"run.{self.name}.push_pull")
        if not isinstance(key, int | str):
            raise MethodError(f"run.{self.name}.push_pull was called with key={key!r}: pass an int or a str")
        call = Call(
            "push_pull",
            payload=payload,
            partner=hosting_rank(key, self.size),
            key=str(key),
            server=server,
            answers=self.answers,
            ragged=ragged,
            together=together,
        )
        if together is not None:
            call.place = len(together.calls)
            together.calls.append(call)
        return self._post(call)

    def send(self, payload: Payload, to: int, ragged: bool = False) -> Pending[None]:
        """Send one message to another worker.

        Args:
            payload: flat tensors by kind.
            to: the rank, in this channel, of the receiver.
            ragged: must be true if the receiver cannot know the sizes.
        """
        payload = payloads.flat(payload, f"run.{self.name}.send")
        call = Call("send", payload=payload, partner=self._known_rank(to, "send", "to"), ragged=ragged)
        return self._hand_over(self._transport.send, call)

    def receive(self, source: int) -> Pending[Payload]:
        """Receive the next message from the worker with rank `source`; it must be sent in the same step."""
        call = Call("receive", partner=self._known_rank(source, "receive", "source"))
        return self._hand_over(self._transport.receive, call)

    def _known_rank(self, rank: int, verb: str, argument: str) -> int:
        """Check that a member of this channel has this rank, and return it; -1 is none."""
        if type(rank) is not int or not 0 <= rank < self.size:
            raise MethodError(
                f"run.{self.name}.{verb} was called with {argument}={rank!r}: pass a rank of this channel, "
                f"an int from 0 to {self.size - 1}"
            )
        return rank

    def _post(self, call: Call) -> Pending[Any]:
        return self._hand_over(self._transport.post, call)

    def _hand_over(self, carry: Callable[[Group, Call], Pending[T]], call: Call) -> Pending[T]:
        """Hand a call over to the transport, unless calls are not allowed now."""
        when = "in a server's update: a server answers what was pushed" if serving() else self.shut
        if when:
            raise MethodError(f"run.{self.name}.{call.verb} was called {when}")
        recorder = self.recorder
        pending = carry(self, call) if recorder is None else self._record(recorder, carry, call)
        self.unclaimed.add(pending)
        return pending

    def _record(
        self, recorder: Recorder, carry: Callable[[Group, Call], Pending[T]], call: Call
    ) -> Pending[T]:
        """Hand a call over, and record it and the time that this takes."""
        made = RecordedCall(
            step=recorder.step,
            channel=self.name,
            members=self.members,
            verb=call.verb,
            key=call.key,
            partner=call.partner,
            ragged=call.ragged,
            sent_bytes=call.sent_bytes(),
            issued_ns=perf_counter_ns(),
            after=tuple(pending.number for pending in call.after),
        )
        call.recorded = made
        number = recorder.call(made)
        before = recorder.switch(Activity(TRANSPORT, call.verb, number))
        try:
            pending = carry(self, call)
        finally:
            recorder.switch(before)
        pending.number = number
        if pending.done:
            # The worker may wait for it only after the last step that is recorded.
            made.received_bytes = pending.received_bytes()
        return pending


class UnmeteredChannel(Channel):
    """The channel of an evaluation: it is not metered, and a mean leaves the given tensors unchanged."""

    def mean(
        self, tensors: list[Tensor], kind: str = "values", after: Sequence[Pending[object]] = ()
    ) -> Pending[list[Tensor]]:
        """Return the mean over the workers as new tensors; workers may share them, so do not change them."""
        tensors = payloads.plain(tensors, "unmetered.mean")
        return self._post(Call("mean", tensors=tensors, kind=kind, fresh=True, after=after))

    def meter(self, verb: str, kind: str, push: int, pull: int, passed: Wire) -> None:
        pass
