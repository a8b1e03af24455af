"""Channels: the only way from one worker to another, metered.

A channel joins the workers of a group. Each of its verbs hands something over and gives a `Pending`;
`wait()` gives the answer. What was handed over must not be touched until then. An answer that several
workers share (`gather`, `push_pull`) must not be written to. Payloads travel flat: see traffic/payload.py.

    mean(tensors)             the mean over the workers, written into the tensors
    gather(payload)           everybody's payload, in the order of the ranks
    broadcast(tensors, source)    the tensors of one worker, written into everybody's
    push_pull(key, payload, server)   the answer of a parameter server to everybody's payload
    send(payload, to), receive(source)   one message from worker to worker

All members of a group call the same verbs in the same order. A method may make calls from the first step on,
in the hooks that belong to training; see `thinwire.method.Method`.
"""

from typing import Any

from torch import Tensor

from thinwire.call import Call, Pending, serving
from thinwire.errors import MethodError
from thinwire.group import Group
from thinwire.server import Server
from thinwire.traffic import payload as payloads
from thinwire.traffic.ledger import Ledger
from thinwire.traffic.payload import Payload
from thinwire.traffic.wire_bytes import Wire
from thinwire.transport.transport import Transport


class Channel(Group):
    """One worker's end of a channel; what passes is entered in its ledger."""

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
        self.shut = ""  # while no calls are allowed here: in words, when that is
        self._transport = transport

    def mean(self, tensors: list[Tensor], kind: str = "values") -> Pending[list[Tensor]]:
        """Write the mean over the workers into `tensors`, whose shapes are the same everywhere."""
        where = f"run.{self.name}.mean"
        tensors = payloads.plain(tensors, where)
        return self._post(Call("mean", tensors=tensors, kind=payloads.known(kind, where)))

    def gather(self, payload: Payload, ragged: bool = False) -> Pending[list[Payload]]:
        """Give everybody's payload, in the order of the workers.

        Payloads whose sizes differ from worker to worker must be declared `ragged`: then the sizes
        travel too, and are counted.
        """
        payload = payloads.flat(payload, f"run.{self.name}.gather")
        return self._post(Call("gather", payload=payload, ragged=ragged))

    def broadcast(self, tensors: list[Tensor], source: int, kind: str = "weights") -> Pending[list[Tensor]]:
        """Write the tensors of the worker with rank `source` in this channel into everybody's."""
        where = f"run.{self.name}.broadcast"
        tensors = payloads.plain(tensors, where)
        return self._post(
            Call("broadcast", tensors=tensors, kind=payloads.known(kind, where), partner=source)
        )

    def push_pull(
        self, key: int | str, payload: Payload, server: Server, ragged: bool = False
    ) -> Pending[Payload]:
        """Push `payload` to the parameter server of `key` and pull its answer.

        `server` lives on one of the workers, chosen by key; only that worker's copy is ever asked.
        Payloads or answers whose sizes the other end cannot know must be declared `ragged`.
        """
        payload = payloads.flat(payload, f"run.{self.name}.push_pull")
        owner = key % self.size if isinstance(key, int) else sum(key.encode()) % self.size
        return self._post(
            Call("push_pull", payload=payload, partner=owner, key=str(key), server=server, ragged=ragged)
        )

    def send(self, payload: Payload, to: int, ragged: bool = False) -> Pending[None]:
        """Send one message to the worker with rank `to`; `ragged` if that one cannot know its size."""
        payload = payloads.flat(payload, f"run.{self.name}.send")
        call = Call("send", payload=payload, partner=to, ragged=ragged)
        self._require_open(call)
        return self._claim(self._transport.send(self, call))

    def receive(self, source: int) -> Pending[Payload]:
        """Receive the next message from the worker with rank `source`, sent in this step."""
        call = Call("receive", partner=source)
        self._require_open(call)
        return self._claim(self._transport.receive(self, call))

    def _post(self, call: Call) -> Pending[Any]:
        self._require_open(call)
        return self._claim(self._transport.post(self, call))

    def _require_open(self, call: Call) -> None:
        """One may speak now.

        Raises:
            MethodError: saying when one may.
        """
        when = "in a server's update: a server answers what was pushed" if serving() else self.shut
        if when:
            raise MethodError(f"run.{self.name}.{call.verb} was called {when}")

    def _claim(self, pending: Pending[Any]) -> Pending[Any]:
        self.unclaimed.add(pending)
        return pending


class QuietChannel(Channel):
    """The channel of an evaluation: nobody meters it, and a mean leaves what was handed over alone."""

    def mean(self, tensors: list[Tensor], kind: str = "values") -> Pending[list[Tensor]]:
        """Give the mean over the workers as new tensors, which the workers may share."""
        tensors = payloads.plain(tensors, "quiet.mean")
        return self._post(Call("mean", tensors=tensors, kind=kind, fresh=True))

    def meter(self, verb: str, kind: str, push: int, pull: int, passed: Wire) -> None:
        pass
