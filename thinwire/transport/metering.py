"""What the engine notes of each call: its bytes in the ledger, and if the worker is traced, its times."""

from collections.abc import Callable
from time import perf_counter_ns
from typing import TypeVar

import torch.distributed as dist

from thinwire.base.errors import MethodError
from thinwire.traffic import wire_bytes
from thinwire.traffic.payload import Payload, bytes_by_kind, describe
from thinwire.transport.call import Call, Group


def mean(group: Group, kind: str, size: int) -> None:
    """Enter a mean of `size` bytes."""
    group.meter("mean", kind, size, size, wire_bytes.all_reduce(group.rank, group.nodes, size))


def gather(group: Group, each: dict[str, list[int]]) -> None:
    """Enter a gather in which the members hand over `each[kind][rank]` bytes."""
    for kind, given in each.items():
        own = given[group.rank]
        passed = wire_bytes.all_gather(group.rank, group.nodes, given)
        group.meter("gather", kind, own, sum(given) - own, passed)


def broadcast(group: Group, kind: str, size: int, source: int) -> None:
    """Enter a broadcast of `size` bytes from the member `source` to all others."""
    is_source = group.rank == source
    passed = wire_bytes.broadcast(group.rank, group.nodes, size, source)
    group.meter("broadcast", kind, size if is_source else 0, 0 if is_source else size, passed)


def push_pull(group: Group, pushed: dict[str, list[int]], pulled: dict[str, int], server: int) -> None:
    """Enter pushes of `pushed[kind][rank]` bytes to the member `server`, and its answer to every member."""
    for kind, given in pushed.items():
        passed = wire_bytes.push(group.rank, group.nodes, given, server)
        group.meter("push", kind, given[group.rank], 0, passed)
    for kind, size in pulled.items():
        passed = wire_bytes.pull(group.rank, group.nodes, size, server)
        group.meter("pull", kind, 0, size, passed)


def send(group: Group, message: dict[str, int], to: int) -> None:
    """Enter a message to another worker; messages of a worker to itself are not counted."""
    if to == group.rank:
        return
    for kind, size in message.items():
        passed = wire_bytes.send(group.nodes[group.rank], group.nodes[to], size)
        group.meter("send", kind, size, 0, passed)


def receive(group: Group, message: dict[str, int], source: int) -> None:
    """Enter a message from another worker."""
    if source == group.rank:
        return
    for kind, size in message.items():
        group.meter("receive", kind, 0, size, wire_bytes.receive(size))


def bytes_of_each(payloads: list[Payload], ragged: bool) -> dict[str, list[int]]:
    """Check that the payloads match; return the bytes that each member hands over, by kind.

    For ragged payloads these include the bytes of the transmitted sizes.

    Raises:
        MethodError: the kinds or types differ, or the sizes differ and the payloads are not ragged.
    """
    first = describe(payloads[0], ragged=True)
    for rank, payload in enumerate(payloads):
        if (other := describe(payload, ragged=True)) != first:
            raise MethodError(
                f"rank 0 hands over {_listed(first)}, and rank {rank} {_listed(other)}: hand over the same "
                "kinds in the same order and of the same types, and an empty tensor where there is nothing"
            )
    each = [bytes_by_kind(payload, ragged) for payload in payloads]
    by_kind = {kind: [sizes[kind] for sizes in each] for kind in each[0]}
    for kind, sizes in by_kind.items():
        if len(set(sizes)) > 1 and not ragged:
            raise MethodError(
                f"the workers hand over {kind} of different sizes, {sizes} bytes: say ragged=True, so that "
                "the sizes travel too and are counted"
            )
    return by_kind


def bytes_of_equal(call: Call, size: int) -> dict[str, list[int]]:
    """The bytes that each of `size` members hands over, by kind, if all hand over as much as this one."""
    return {kind: [own] * size for kind, own in bytes_by_kind(call.payload, call.ragged).items()}


def _listed(kinds: list[str]) -> str:
    return ", ".join(kinds) or "nothing"


T = TypeVar("T")


def begins(call: Call) -> None:
    """Note, as all functions below, only for a traced worker: the first byte can leave now."""
    if call.recorded is not None:
        call.recorded.begun_ns = perf_counter_ns()


def ends(call: Call) -> None:
    """Note that the answer is there now."""
    if call.recorded is not None:
        call.recorded.ended_ns = perf_counter_ns()


def timed(call: Call, function: Callable[[], T]) -> Callable[[], T]:
    """Return a function that carries out a call, and notes when it ends; and when it begins, if unknown."""
    recorded = call.recorded
    if recorded is None:
        return function

    def noted() -> T:
        recorded.begun_ns = recorded.begun_ns or perf_counter_ns()
        try:
            return function()
        finally:
            ends(call)

    return noted


def follow(call: Call, work: dist.Work, cpu: bool) -> None:
    """Note when a call's work in torch.distributed begins, and when it has ended.

    gloo's threads tell the end. It is noted by Python, so it comes late by as long as another thread keeps
    Python busy. Of tensors on a GPU nothing is noted, because their copies to the host are only queued then.

    Args:
        call: may consist of several works; the last one to end counts.
        work: which has just begun.
        cpu: are its tensors on the CPU?
    """
    recorded = call.recorded
    if recorded is None or not cpu:
        return

    def ended(future: object) -> None:
        ends(call)

    recorded.begun_ns = recorded.begun_ns or perf_counter_ns()
    work.get_future().add_done_callback(ended)
