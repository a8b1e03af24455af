"""All workers in one process, on one device; they run alternately, in a fixed order.

Each worker runs until it waits for an answer that is not there yet. Then the next worker runs. So a method
that is written for many processes runs unchanged in one process, and gives the same bits every time. Workers
are greenlets of one thread. A switch takes microseconds, and no two workers run at the same time. Each
greenlet is used for many turns, because each new one maps memory for its stack.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import torch
from greenlet import getcurrent, greenlet

from thinwire.base.errors import MethodError
from thinwire.traffic.payload import Payload, bytes_by_kind, copy, nbytes
from thinwire.transport import flat_tensors, metering
from thinwire.transport.call import Call, Group, Pending
from thinwire.transport.interface import Kind, Transport
from thinwire.transport.metering import bytes_of_each


def ready_greenlet() -> greenlet:
    """Return a greenlet that runs the functions that are switched to it, one after the other.

    A switch to it returns True when the function has returned. It returns False if the function lets others
    run first; then the next switch continues it. An error of the function ends the greenlet.
    """
    made = greenlet(_take_turns)
    made.switch()
    return made


def _take_turns() -> None:
    while True:
        turn = getcurrent().parent.switch(True)
        turn()
        del turn  # Until the next turn, nothing that belongs to this one is kept alive.


def let_others_run() -> bool:
    """Interrupt this turn until the next switch to it; return False at once outside any turn."""
    hub = getcurrent().parent
    if hub is None:
        return False
    hub.switch(False)
    return True


T = TypeVar("T")


class InProcess(Transport):
    """The transport of W workers in this process."""

    kind: Kind = "inprocess"
    overlaps = False

    def __init__(self, workers: int) -> None:
        self.ranks: Sequence[int] = range(workers)
        # Collective calls that still wait for some members, by channel and number of the call on it.
        self._collectives: dict[tuple[str, int], list[Pending[object] | None]] = {}
        # Messages sent and not yet received, and receivers still waiting, by channel, sender, receiver.
        self._sent: dict[tuple[str, int, int], deque[Call]] = {}
        self._expected: dict[tuple[str, int, int], deque[Pending[object]]] = {}
        self._completed = 0
        self._failed: Exception | None = None  # the error of a call that could not be carried out
        self._idle: list[greenlet] = []  # ready for the turns of the workers; empty while they run

    def together(self, turns: Sequence[Callable[[], T]]) -> list[T]:
        """Run one function per worker, alternately: a worker that must wait lets the next one run."""
        results: dict[int, T] = {}

        def run(worker: int) -> None:
            results[worker] = turns[worker]()

        # After an error they are not put back: some of them have stopped in the middle of a turn.
        greenlets, self._idle = self._idle or [ready_greenlet() for _ in turns], []
        running = list(range(len(turns)))
        while running:
            before = (len(running), self._completed)
            for worker in list(running):
                if greenlets[worker].switch(partial(run, worker)):
                    running.remove(worker)
            if (len(running), self._completed) == before:
                raise MethodError(f"the workers wait for each other for ever: {self._unfinished()}")
        self._idle = greenlets
        return [results[worker] for worker in range(len(turns))]

    def wait(self, pending: Pending[object]) -> None:
        """Let the other workers run until `pending` is done."""
        while not pending.done:
            if not let_others_run():
                raise MethodError(f"no other worker can complete {pending.call.describe()}")

    def check_settled(self) -> None:
        """Check after a step that every collective call is complete and every message has been received.

        Raises:
            MethodError: something is unfinished; the message names it.
            Exception: a call has failed, even if the method caught the error. Between processes, the other
                workers could not continue either.
        """
        if self._failed is not None:
            raise self._failed
        if self._collectives or any(self._sent.values()) or any(self._expected.values()):
            raise MethodError(f"a step ended with unfinished calls: {self._unfinished()}")

    def post(self, group: Group, call: Call) -> Pending[object]:
        """Join the next collective call on the channel; the last worker to join completes it for all."""
        pending: Pending[object] = Pending(group, call, self.wait)
        place = (group.key, group.calls)
        group.calls += 1
        collective = self._collectives.get(place)
        if collective is None:
            collective = self._collectives[place] = [None] * group.size
        collective[group.rank] = pending
        members = [member for member in collective if member is not None]
        if len(members) == group.size:
            del self._collectives[place]
            try:
                _require_same_call(group, place[1], [member.call for member in members])
                complete(members)
            except Exception as error:
                self._failed = error
                raise
            self._completed += 1
        return pending

    def send(self, group: Group, call: Call) -> Pending[None]:
        """Deliver a message to its receiver, or keep it until the receiver asks for it."""
        pending: Pending[None] = Pending(group, call, self.wait)
        route = (group.key, group.rank, call.partner)
        metering.send(group, bytes_by_kind(call.payload, call.ragged), call.partner)
        call.payload = copy(call.payload)
        pending.complete(None)
        expected = self._expected.get(route)
        if expected:
            _deliver(expected.popleft(), call)
        else:
            self._sent.setdefault(route, deque()).append(call)
        self._completed += 1
        return pending

    def receive(self, group: Group, call: Call) -> Pending[Payload]:
        """Take the next message from the sender, or wait for it."""
        pending: Pending[Payload] = Pending(group, call, self.wait)
        route = (group.key, call.partner, group.rank)
        sent = self._sent.get(route)
        if sent:
            _deliver(pending, sent.popleft())
        else:
            self._expected.setdefault(route, deque()).append(pending)
        return pending

    def _unfinished(self) -> str:
        """Describe all unfinished calls and messages."""
        parts = []
        for (key, number), collective in self._collectives.items():
            name, first = key.split("/")
            joined = [rank for rank, pending in enumerate(collective) if pending is not None]
            missing = [rank for rank, pending in enumerate(collective) if pending is None]
            call = next(pending.call for pending in collective if pending is not None)
            parts.append(
                f"call {number + 1} on run.{name} (whose first member is worker {first}): "
                f"ranks {joined} called {call.describe()}, and ranks {missing} did not"
            )
        for (key, source, to), messages in self._sent.items():
            if messages:
                parts.append(
                    f"rank {source} sent {len(messages)} messages to rank {to} on run.{key.split('/')[0]} "
                    "that were not received in the same step"
                )
        for (key, source, to), waiting in self._expected.items():
            if waiting:
                parts.append(f"rank {to} waits on run.{key.split('/')[0]} for a message from rank {source}")
        return "; ".join(parts)


def _require_same_call(group: Group, number: int, calls: list[Call]) -> None:
    """Raise a MethodError if the members, all of them in this process, have made different calls."""
    first = calls[0]
    expected = _must_agree(first)
    for rank, call in enumerate(calls[1:], 1):
        if _must_agree(call) != expected:
            raise MethodError(
                f"call {number + 1} on run.{group.name} does not agree: rank 0 calls "
                f"{first.describe()} and rank {rank} calls {call.describe()}"
            )


def _must_agree(call: Call) -> tuple[object, ...]:
    """Everything in which the calls of all members must agree."""
    layout = [(tensor.shape, tensor.dtype) for tensor in call.tensors]
    series = None if call.together is None else (call.together.reduces, call.place)
    return call.verb, call.kind, call.partner, call.key, call.ragged, series, layout


def complete(members: list[Pending[object]]) -> None:
    """Complete a collective call for all members of a channel, given in the order of their ranks."""
    _VERBS[members[0].call.verb](members)


def _mean(members: list[Pending[object]]) -> None:
    calls = [member.call for member in members]
    total = [t.clone() for t in calls[0].tensors] if calls[0].fresh else calls[0].tensors
    if len(members) > 1:
        everybody = [total, *(call.tensors for call in calls[1:])]
        for own, *others in zip(*map(flat_tensors.by_dtype, everybody)):
            flat_tensors.mean_in_order(own, others)
    size = nbytes(total)
    for member in members:
        call = member.call
        if call.fresh:
            member.complete(total)
            continue
        if call.tensors is not total and total:
            torch._foreach_copy_(call.tensors, total)
        if len(members) > 1:
            metering.mean(member.group, call.kind, size)
        member.complete(call.tensors)


def _gather(members: list[Pending[object]]) -> None:
    sizes = _sizes(members)
    # Copies, as on a network: a worker may change its tensors before the others have read them.
    payloads = [copy(member.call.payload) for member in members]
    for member in members:
        if len(members) > 1:
            metering.gather(member.group, sizes)
        member.complete(payloads)


def _sizes(members: list[Pending[object]]) -> dict[str, list[int]]:
    return bytes_of_each([member.call.payload for member in members], members[0].call.ragged)


def _broadcast(members: list[Pending[object]]) -> None:
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


def _push_pull(members: list[Pending[object]]) -> None:
    call = members[0].call
    pushed = _sizes(members)
    pushes = [copy(member.call.payload) for member in members]
    answer = copy(members[call.partner].call.serve(pushes))
    pulled = bytes_by_kind(answer, call.ragged)
    for member in members:
        if len(members) > 1:
            metering.push_pull(member.group, pushed, pulled, call.partner)
        member.complete(answer)


def _deliver(pending: Pending[object], message: Call) -> None:
    pending.call.ragged = message.ragged
    size = bytes_by_kind(message.payload, message.ragged)
    metering.receive(pending.group, size, pending.call.partner)
    pending.complete(message.payload)


_VERBS = {"mean": _mean, "gather": _gather, "broadcast": _broadcast, "push_pull": _push_pull}
