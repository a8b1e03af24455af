"""All workers in one process, on one device, taking turns at the channels in a fixed order.

Each worker runs until it waits for an answer that is not there yet; then the next one has its turn. So a
method written for many processes runs unchanged in one, and gives the same bits every time. Workers are
greenlets of one thread: a turn costs microseconds, and nothing ever runs at the same time.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import torch
from greenlet import getcurrent, greenlet
from torch import Tensor

from thinwire.call import Call, Pending, nbytes
from thinwire.errors import MethodError
from thinwire.group import Group
from thinwire.traffic.payload import Payload, copy
from thinwire.transport import flatten, metering
from thinwire.transport.agreement import agreed
from thinwire.transport.transport import Outcome

T = TypeVar("T")


class InProcess:
    """The transport of W workers in this process."""

    kind: Literal["inprocess", "measured"] = "inprocess"
    overlaps = False

    def __init__(self, workers: int) -> None:
        self.ranks: Sequence[int] = range(workers)
        # Meetings that wait for some of their members, by channel and number of the call on it.
        self._meetings: dict[tuple[tuple[str, int], int], list[Pending[Any] | None]] = {}
        # Messages sent and not yet received, and receivers still waiting, by channel, sender, receiver.
        self._sent: dict[tuple[tuple[str, int], int, int], deque[Call]] = {}
        self._expected: dict[tuple[tuple[str, int], int, int], deque[Pending[Any]]] = {}
        self._completed = 0
        self._failed: Exception | None = None  # a call that could not be carried out

    def together(self, turns: Sequence[Callable[[], T]]) -> list[T]:
        """Run one function per worker; where they wait for each other they take turns."""
        workers = [greenlet(turn) for turn in turns]
        results: list[Any] = [None] * len(turns)
        running = list(range(len(turns)))
        while running:
            before = (len(running), self._completed)
            for worker in list(running):
                results[worker] = workers[worker].switch()
                if workers[worker].dead:
                    running.remove(worker)
            if (len(running), self._completed) == before:
                raise MethodError(f"the workers wait for each other for ever: {self._unmet()}")
        return results

    def wait(self, pending: Pending[Any]) -> None:
        """Give the turn to the next worker until `pending` is done."""
        while not pending.done:
            hub = getcurrent().parent
            if hub is None:
                raise MethodError(f"nobody is left who could complete {pending.call.describe()}")
            hub.switch()

    def check_settled(self) -> None:
        """After a step: every meeting has met, and every message has been received.

        Raises:
            MethodError: naming what is left.
            Exception: a call has failed. The method may not go on, as its mates could not between processes.
        """
        if self._failed is not None:
            raise self._failed
        if self._meetings or any(self._sent.values()) or any(self._expected.values()):
            raise MethodError(f"a step ended with calls that never met: {self._unmet()}")

    def post(self, group: Group, call: Call) -> Pending[Any]:
        """Join the next meeting on the channel; the last one to come completes it for all."""
        pending: Pending[Any] = Pending(group, call, self.wait)
        place = (group.key, group.calls)
        group.calls += 1
        meeting = self._meetings.get(place)
        if meeting is None:
            meeting = self._meetings[place] = [None] * group.size
        meeting[group.rank] = pending
        members = [member for member in meeting if member is not None]
        if len(members) == group.size:
            del self._meetings[place]
            try:
                _require_agreement(group, place[1], [member.call for member in members])
                meet(members)
            except Exception as error:
                self._failed = error
                raise
            self._completed += 1
        return pending

    def send(self, group: Group, call: Call) -> Pending[None]:
        """Hand a message to the receiver, or keep it until it asks."""
        pending: Pending[None] = Pending(group, call, self.wait)
        road = (group.key, group.rank, call.partner)
        metering.send(group, metering.sizes(call.payload, call.ragged), call.partner)
        call.payload = copy(call.payload)
        pending.complete(None)
        expected = self._expected.get(road)
        if expected:
            _deliver(expected.popleft(), call)
        else:
            self._sent.setdefault(road, deque()).append(call)
        self._completed += 1
        return pending

    def receive(self, group: Group, call: Call) -> Pending[Payload]:
        """Take the next message from the sender, or wait for it."""
        pending: Pending[Payload] = Pending(group, call, self.wait)
        road = (group.key, call.partner, group.rank)
        sent = self._sent.get(road)
        if sent:
            _deliver(pending, sent.popleft())
        else:
            self._expected.setdefault(road, deque()).append(pending)
        return pending

    def arrive(self) -> None:
        """Nothing is ever on its way: who comes last completes a meeting at once."""

    def share(self, own: list[T]) -> list[T]:
        """All workers are here."""
        return own

    def end_together(self, outcome: Outcome) -> Outcome:
        """All workers are here."""
        return outcome

    def check_agreement(self) -> None:
        """Every meeting has seen to it."""

    def _unmet(self) -> str:
        """Who waits where for whom, in words."""
        parts = []
        for ((name, first), number), meeting in self._meetings.items():
            came = [rank for rank, pending in enumerate(meeting) if pending is not None]
            missing = [rank for rank, pending in enumerate(meeting) if pending is None]
            call = next(pending.call for pending in meeting if pending is not None)
            parts.append(
                f"call {number + 1} on run.{name} (of worker {first} and its mates) is "
                f"{call.describe()} by ranks {came}, and ranks {missing} did not come"
            )
        for (key, source, to), messages in self._sent.items():
            if messages:
                parts.append(
                    f"rank {source} sent {len(messages)} messages to rank {to} on run.{key[0]} "
                    "that were not received in the same step"
                )
        for (key, source, to), waiting in self._expected.items():
            if waiting:
                parts.append(f"rank {to} waits on run.{key[0]} for a message from rank {source}")
        return "; ".join(parts)


def _require_agreement(group: Group, number: int, calls: list[Call]) -> None:
    """All members must have made the same call."""
    first = calls[0]
    for rank, call in enumerate(calls[1:], 1):
        same = (
            (call.verb, call.kind, call.partner, call.key, call.ragged)
            == (first.verb, first.kind, first.partner, first.key, first.ragged)
            and len(call.tensors) == len(first.tensors)
            and all(a.shape == b.shape and a.dtype == b.dtype for a, b in zip(call.tensors, first.tensors))
        )
        if not same:
            raise MethodError(
                f"call {number + 1} on run.{group.name} does not agree: rank 0 calls "
                f"{first.describe()} and rank {rank} calls {call.describe()}"
            )


def meet(members: list[Pending[Any]]) -> None:
    """Complete a call for all members of a channel, who are all here, in the order of their ranks."""
    _VERBS[members[0].call.verb](members)


def _mean(members: list[Pending[Any]]) -> None:
    calls = [member.call for member in members]
    total = [t.clone() for t in calls[0].tensors] if calls[0].fresh else calls[0].tensors
    if len(members) > 1 and total:
        for own, *others in zip(
            flatten.by_dtype(total), *(flatten.by_dtype(call.tensors) for call in calls[1:])
        ):
            _mean_of_one_type(own, others)
    size = nbytes(total)
    for member in members:
        call, group = member.call, member.group
        if call.fresh:
            member.complete(total)
            continue
        if call.tensors is not total and total:
            torch._foreach_copy_(call.tensors, total)
        if len(members) > 1:
            metering.mean(group, call.kind, size)
        member.complete(call.tensors)


def _mean_of_one_type(own: list[Tensor], others: list[list[Tensor]]) -> None:
    """Write the mean of everybody's tensors into the first one's.

    In the order of the ranks, so that the rounding is the same every time. In 16 bits each is divided before
    it is added: a sum may overflow where the mean does not.
    """
    count = 1 + len(others)
    divide_first = own[0].element_size() == 2
    if divide_first:
        torch._foreach_div_(own, count)
    for tensors in others:
        torch._foreach_add_(own, torch._foreach_div(tensors, count) if divide_first else tensors)
    if not divide_first:
        torch._foreach_div_(own, count)


def _gather(members: list[Pending[Any]]) -> None:
    sizes = _agreed_sizes(members)
    # Copies, as on a network: a worker may go on with what it gave before the others have read it.
    payloads = [copy(member.call.payload) for member in members]
    for member in members:
        group = member.group
        if len(members) > 1:
            metering.gather(group, sizes)
        member.complete(payloads)


def _agreed_sizes(members: list[Pending[Any]]) -> dict[str, list[int]]:
    """Bytes that each member hands over, by kind: of the same size everywhere, if they are not ragged."""
    return agreed([member.call.payload for member in members], members[0].call.ragged)


def _broadcast(members: list[Pending[Any]]) -> None:
    source = members[0].call.partner
    given = members[source].call.tensors
    size = nbytes(given)
    for member in members:
        call, group = member.call, member.group
        if group.rank != source and given:
            torch._foreach_copy_(call.tensors, given)
        if len(members) > 1:
            metering.broadcast(group, call.kind, size, source)
        member.complete(call.tensors)


def _push_pull(members: list[Pending[Any]]) -> None:
    call = members[0].call
    pushed = _agreed_sizes(members)
    pushes = [copy(member.call.payload) for member in members]
    answer = copy(members[call.partner].call.serve(pushes))
    pulled = metering.sizes(answer, call.ragged)
    for member in members:
        if len(members) > 1:
            metering.push(member.group, pushed, call.partner)
            metering.pull(member.group, pulled, call.partner)
        member.complete(answer)


def _deliver(pending: Pending[Any], message: Call) -> None:
    size = metering.sizes(message.payload, message.ragged)
    metering.receive(pending.group, size, pending.call.partner)
    pending.complete(message.payload)


_VERBS = {"mean": _mean, "gather": _gather, "broadcast": _broadcast, "push_pull": _push_pull}
