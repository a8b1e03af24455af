"""The verbs of a channel whose members share a host, in shared memory.

A separate thread carries out the calls of the channel, one after the other. Each verb hands its call to that
thread and returns a function. The worker calls that function when it waits for the answer.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from torch import Tensor

from thinwire.call import Call
from thinwire.group import Group
from thinwire.traffic.payload import Payload, bytes_by_kind, nbytes
from thinwire.transport import call_times, flatten, ledger_entries
from thinwire.transport.matching_payloads import bytes_of_each
from thinwire.transport.shared_memory import SharedMemory

T = TypeVar("T")
Finish = Callable[[], object]


class InSharedMemory:
    """One worker's end of a channel whose members share a host."""

    def __init__(self, memory: SharedMemory, in_order: ThreadPoolExecutor) -> None:
        self._memory = memory
        self._in_order = in_order  # one thread, so that calls are carried out in order

    def close(self) -> None:
        """Release the shared memory."""
        self._memory.close()

    def mean(self, group: Group, call: Call, number: int) -> Finish:
        tensors = [torch.empty_like(t) for t in call.tensors] if call.fresh else call.tensors
        if not call.fresh:
            ledger_entries.mean(group, call.kind, nbytes(tensors))

        def exchange() -> list[Tensor]:
            for given, results in zip(flatten.by_dtype(call.tensors), flatten.by_dtype(tensors)):
                self._memory.mean(given, into=results)
            return tensors

        return self._submit(group, call, number, exchange)

    def broadcast(self, group: Group, call: Call, number: int) -> Finish:
        ledger_entries.broadcast(group, call.kind, nbytes(call.tensors), call.partner)

        def exchange() -> list[Tensor]:
            for same_type in flatten.by_dtype(call.tensors):
                self._memory.broadcast(same_type, call.partner)
            return call.tensors

        return self._submit(group, call, number, exchange)

    def gather(self, group: Group, call: Call, number: int) -> Finish:
        wait = self._submit(group, call, number, lambda: self._memory.gather(call.payload, call.ragged))

        def finish() -> list[Payload]:
            payloads = wait()
            ledger_entries.gather(group, bytes_of_each(payloads, call.ragged))
            return payloads

        return finish

    def push_pull(self, group: Group, call: Call, number: int) -> Finish:
        wait = self._submit(
            group,
            call,
            number,
            lambda: self._memory.push_pull(call.payload, call.ragged, call.partner, call.serve),
        )

        def finish() -> Payload:
            pushed, answer = wait()
            ledger_entries.push(group, pushed, call.partner)
            ledger_entries.pull(group, bytes_by_kind(answer, call.ragged), call.partner)
            return answer

        return finish

    def _submit(self, group: Group, call: Call, number: int, exchange: Callable[[], T]) -> Callable[[], T]:
        """Let the thread run `exchange` after all earlier calls; return a function that waits for it."""
        # Without the payload, whose sizes are compared later, when they have arrived.
        description = f"call {number + 1} on run.{group.name}, {call.describe(in_full=False)}"
        if call.tensors:
            description += f" of {nbytes(call.tensors)} bytes"

        def carry_out() -> T:
            self._memory.begin(description)
            return exchange()

        return self._in_order.submit(call_times.timed(call, carry_out)).result
