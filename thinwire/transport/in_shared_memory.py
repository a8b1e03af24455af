"""The verbs of a channel whose members share a host, in shared memory.

Each is begun by a thread of its own, in the order of the calls, and gives what is left to do when its worker
waits for it.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from thinwire.call import Call, nbytes
from thinwire.group import Group
from thinwire.traffic.payload import Payload
from thinwire.transport import flatten, metering
from thinwire.transport.agreement import agreed
from thinwire.transport.shared_memory import SharedMemory

T = TypeVar("T")
Finish = Callable[[], Any]


class InSharedMemory:
    """One worker's end of a channel whose members share a host."""

    def __init__(self, memory: SharedMemory, turns: ThreadPoolExecutor) -> None:
        self._memory = memory
        self._turns = turns  # one thread: the members meet in the order of their calls

    def close(self) -> None:
        self._memory.close()

    def mean(self, group: Group, call: Call, number: int) -> Finish:
        tensors = [torch.empty_like(t) for t in call.tensors] if call.fresh else call.tensors
        if not call.fresh:
            metering.mean(group, call.kind, nbytes(tensors))

        def meet() -> list[Tensor]:
            for given, wanted in zip(flatten.by_dtype(call.tensors), flatten.by_dtype(tensors)):
                self._memory.mean(given, into=wanted)
            return tensors

        return self._in_turn(group, call, number, meet)

    def broadcast(self, group: Group, call: Call, number: int) -> Finish:
        metering.broadcast(group, call.kind, nbytes(call.tensors), call.partner)

        def meet() -> list[Tensor]:
            for alike in flatten.by_dtype(call.tensors):
                self._memory.broadcast(alike, call.partner)
            return call.tensors

        return self._in_turn(group, call, number, meet)

    def gather(self, group: Group, call: Call, number: int) -> Finish:
        given = self._in_turn(group, call, number, lambda: self._memory.gather(call.payload, call.ragged))

        def finish() -> list[Payload]:
            payloads = given()
            metering.gather(group, agreed(payloads, call.ragged))
            return payloads

        return finish

    def push_pull(self, group: Group, call: Call, number: int) -> Finish:
        met = self._in_turn(
            group,
            call,
            number,
            lambda: self._memory.push_pull(call.payload, call.ragged, call.partner, call.serve),
        )

        def finish() -> Payload:
            pushed, answer = met()
            metering.push(group, pushed, call.partner)
            metering.pull(group, metering.sizes(answer, call.ragged), call.partner)
            return answer

        return finish

    def _in_turn(self, group: Group, call: Call, number: int, meet: Callable[[], T]) -> Callable[[], T]:
        """Meet when it is this call's turn; gives what waits for that."""
        # Without the payload: its sizes are compared when they are there.
        words = f"call {number + 1} on run.{group.name}, {replace(call, payload={}).describe()}"

        def turn() -> T:
            self._memory.begin(words)
            return meet()

        return self._turns.submit(turn).result
