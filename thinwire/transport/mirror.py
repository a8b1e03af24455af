"""One worker of a cluster runs for real, and the others are taken to do what it does.

A method is symmetric: its workers run the same code, and differ in their data and their ranks. So the calls
of one worker tell what the others call, and the schedule of any number of workers follows from the method's
own code. Every answer is what the others would give if they had handed over the same:

- a mean or a broadcast gives the worker's own tensors back;
- a gather gives its own payload, as often as the channel has members;
- a server answers as many pushes like the worker's own, wherever its worker sits;
- a message that is received is one that the worker has sent itself, see `Mirror.receive`.

The ledger has the same bytes as in a run of all workers, except for what depends on learning. The sizes of
ragged payloads, and decisions that follow from the loss, are those of a worker that trains alone.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from torch import Tensor

from thinwire.base.errors import UserError
from thinwire.traffic.payload import Payload, bytes_by_kind, copy, nbytes
from thinwire.transport import inprocess, metering
from thinwire.transport.call import Call, Group, Pending
from thinwire.transport.interface import Kind, Transport
from thinwire.transport.metering import bytes_of_equal

T = TypeVar("T")


class CannotMirror(UserError):
    """What a worker does depends on a message of a worker that does something else."""


class Mirror(Transport):
    """The transport of one worker of a cluster, without the others."""

    kind: Kind = "mirrored"
    overlaps = True

    def __init__(self, workers: int, rank: int, controls: Sequence[Tensor] = ()) -> None:
        """Mirror a worker.

        Args:
            workers: of the cluster.
            rank: of this worker.
            controls: the means of kind `control` that another worker of the cluster got, in their order. This
                worker gets the same, so that it decides the same.
        """
        self.ranks: Sequence[int] = [rank]
        self.controls: list[Tensor] = []  # that this worker has got
        self._given_controls = list(controls)
        self._workers = workers
        # Of this step: by channel, the messages that were sent and not yet taken, each with how many ranks
        # further its receiver sits; and the receivers that were not answered.
        self._sent: dict[str, list[tuple[int, Call]]] = {}
        self._expected: list[Pending[object]] = []
        self._last: dict[str, Call] = {}  # the last message that was sent, by channel

    def post(self, group: Group, call: Call) -> Pending[object]:
        """Complete a collective call at once."""
        pending: Pending[object] = Pending(group, call, self.wait)
        group.calls += 1
        if group.size == 1:
            inprocess.complete([pending])
        else:
            pending.complete(_VERBS[call.verb](group, call))
        if (call.verb, call.kind) == ("mean", "control"):
            self._control(call)
        return pending

    def _control(self, call: Call) -> None:
        """Give the numbers that another worker has got, or keep those that this one gets."""
        for tensor in call.tensors:
            if len(self.controls) < len(self._given_controls):
                tensor.copy_(self._given_controls[len(self.controls)])
            self.controls.append(tensor.clone())

    def send(self, group: Group, call: Call) -> Pending[None]:
        """Keep a message for the receivers of this step."""
        pending: Pending[None] = Pending(group, call, self.wait)
        metering.send(group, bytes_by_kind(call.payload, call.ragged), call.partner)
        call.payload = copy(call.payload)
        places = (call.partner - group.rank) % group.size
        self._sent.setdefault(group.key, []).append((places, call))
        self._last[group.key] = call
        pending.complete(None)
        return pending

    def receive(self, group: Group, call: Call) -> Pending[Payload]:
        """Receive a message from a mate, which is answered when it is waited for.

        What the mate sends to this worker is like what this worker sends equally many ranks further: on a
        ring, what goes to the right also comes from the left. Without such a message it is like what this
        worker sends to the mate, as in a swap; otherwise like the next message that nobody has received, or
        like the last one.
        """
        pending: Pending[Payload] = Pending(group, call, self.wait)
        self._expected.append(pending)
        return pending

    def wait(self, pending: Pending[object]) -> None:
        """Answer a message that is received; every other call is complete already.

        Raises:
            CannotMirror: this worker has not sent any message to be taken for the mate's.
        """
        group, call = pending.group, pending.call
        message = self._like_that_of(group, call.partner)
        if message is None:
            raise CannotMirror(
                f"worker {group.members[group.rank]} waits on run.{group.name} for a message from worker "
                f"{group.members[call.partner]} before it sends one itself: what its mates send does not "
                "follow from what it does"
            )
        self._expected.remove(pending)
        call.ragged = message.ragged
        metering.receive(group, bytes_by_kind(message.payload, message.ragged), call.partner)
        pending.complete(message.payload)

    def _like_that_of(self, group: Group, source: int) -> Call | None:
        """This worker's message that is taken for the one from `source`; None if it has sent none."""
        sent = self._sent.get(group.key, [])
        to_here, to_source = (group.rank - source) % group.size, (source - group.rank) % group.size
        for places in (to_here, to_source):
            for number, (further, call) in enumerate(sent):
                if further == places:
                    del sent[number]
                    return call
        return sent.pop(0)[1] if sent else self._last.get(group.key)

    def check_settled(self) -> None:
        """Answer the messages of the step that nobody has waited for, and forget those that were sent."""
        for pending in list(self._expected):
            self.wait(pending)
        self._sent.clear()

    def share(self, own: list[T]) -> list[T]:
        """Return this worker's value, once for every worker."""
        return own * self._workers


def _mean(group: Group, call: Call) -> list[Tensor]:
    if call.fresh:
        return [tensor.clone() for tensor in call.tensors]
    metering.mean(group, call.kind, nbytes(call.tensors))
    return call.tensors


def _gather(group: Group, call: Call) -> list[Payload]:
    metering.gather(group, bytes_of_equal(call, group.size))
    return [copy(call.payload)] * group.size


def _broadcast(group: Group, call: Call) -> list[Tensor]:
    metering.broadcast(group, call.kind, nbytes(call.tensors), call.partner)
    return call.tensors


def _push_pull(group: Group, call: Call) -> Payload:
    answer = copy(call.serve([copy(call.payload)] * group.size))
    pulled = bytes_by_kind(answer, call.ragged)
    metering.push_pull(group, bytes_of_equal(call, group.size), pulled, call.partner)
    return answer


_VERBS: dict[str, Callable[[Group, Call], object]] = {
    "mean": _mean,
    "gather": _gather,
    "broadcast": _broadcast,
    "push_pull": _push_pull,
}
