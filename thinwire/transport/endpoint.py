"""The end of a channel in one process, and which verbs it uses: in shared memory, over gloo or over NCCL."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from thinwire.base.errors import MethodError
from thinwire.base.placement import Cluster
from thinwire.traffic.payload import Payload, bytes_by_kind, copy, nbytes
from thinwire.transport import inprocess, metering, wire_format
from thinwire.transport.agreement import CallLog, Summary
from thinwire.transport.call import Call, Finish, Group, Pending
from thinwire.transport.device import make_current
from thinwire.transport.gloo import Distributed
from thinwire.transport.messages import FIRST_TAG_OF_MESSAGES, PointToPoint
from thinwire.transport.metering import bytes_of_each
from thinwire.transport.nccl import OnDeviceGroup, SideStream
from thinwire.transport.rendezvous import translated_errors
from thinwire.transport.shared_memory import SharedMemory
from thinwire.transport.shared_tensors import SharedTensors

T = TypeVar("T")


class InSharedMemory:
    """The verbs of a channel whose members share a host."""

    def __init__(self, memory: SharedMemory, in_order: ThreadPoolExecutor) -> None:
        self._memory = memory
        self._in_order = in_order  # one thread, so that calls are carried out in order
        self.close = memory.close

    def mean(self, group: Group, call: Call, number: int) -> Finish:
        tensors = [torch.empty_like(t) for t in call.tensors] if call.fresh else call.tensors
        if not call.fresh:
            metering.mean(group, call.kind, nbytes(tensors))

        def exchange() -> list[Tensor]:
            for given, results in zip(wire_format.by_dtype(call.tensors), wire_format.by_dtype(tensors)):
                self._memory.mean(given, into=results)
            return tensors

        return self._submit(group, call, number, exchange)

    def broadcast(self, group: Group, call: Call, number: int) -> Finish:
        metering.broadcast(group, call.kind, nbytes(call.tensors), call.partner)

        def exchange() -> list[Tensor]:
            for same_type in wire_format.by_dtype(call.tensors):
                self._memory.broadcast(same_type, call.partner)
            return call.tensors

        return self._submit(group, call, number, exchange)

    def gather(self, group: Group, call: Call, number: int) -> Finish:
        wait = self._submit(group, call, number, lambda: self._memory.gather(call.payload, call.ragged))

        def finish() -> list[Payload]:
            payloads = wait()
            metering.gather(group, bytes_of_each(payloads, call.ragged))
            return payloads

        return finish

    def push_pull(self, group: Group, call: Call, number: int) -> Finish:
        def exchange() -> tuple[dict[str, list[int]], Payload]:
            return self._memory.push_pull(call.payload, call.ragged, call.partner, call.serve)

        wait = self._submit(group, call, number, exchange)

        def finish() -> Payload:
            pushed, answer = wait()
            metering.push_pull(group, pushed, bytes_by_kind(answer, call.ragged), call.partner)
            return answer

        return finish

    def _submit(self, group: Group, call: Call, number: int, exchange: Callable[[], T]) -> Callable[[], T]:
        # Without the payload, whose sizes are compared later, when they have arrived.
        description = f"call {number + 1} on run.{group.name}, {call.describe(in_full=False)}"
        if call.tensors:
            description += f" of {nbytes(call.tensors)} bytes"

        def carry_out() -> T:
            self._memory.begin(description)
            return exchange()

        return self._in_order.submit(metering.timed(call, carry_out)).result


# The largest number of threads of a channel that wait for messages at the same time.
_WAITING_THREADS = 64


class Endpoint:
    """The process group, the threads and the log of calls of one channel in this process."""

    def __init__(
        self,
        members: tuple[int, ...],
        group: dist.ProcessGroup | None,
        rank: int,
        cluster: Cluster,
        device: torch.device,
        issuing: Executor | None = None,
        shared: SharedTensors | None = None,
        log_calls: bool = False,
    ) -> None:
        """Open the channel. All members must do so at the same time.

        Args:
            members: as ranks in the whole run.
            group: their process group; None if there is only one member.
            rank: of this worker in the whole run.
            cluster: tells which workers share a host.
            device: of this worker's tensors.
            issuing: one thread for the calls of all channels, if they use the process group of the GPUs.
            shared: this worker's tensors in the memory of its host; None on GPUs, or alone on a host.
            log_calls: keep the last calls in words.
        """
        self.log = CallLog(log_calls)
        self._place = members.index(rank)
        self._size = len(members)
        self._sent: Counter[int] = Counter()  # messages, by receiver
        self._received: Counter[int] = Counter()  # messages, by sender
        self._to_itself: dict[int, Payload] = {}  # messages, by number
        if group is None:
            return
        self._process_group = group
        self._messages = PointToPoint(self._process_group, device, FIRST_TAG_OF_MESSAGES)
        begin = partial(begin_thread, device)
        self._waiting = ThreadPoolExecutor(_WAITING_THREADS, initializer=begin)
        self._in_order = ThreadPoolExecutor(1, initializer=begin)
        self._holding = ThreadPoolExecutor(1, initializer=begin)
        on_one_host = len({cluster.node_of(member) for member in members}) == 1
        self._verbs: OnDeviceGroup | InSharedMemory | Distributed
        if issuing is not None:
            self._verbs = OnDeviceGroup(group, device, SideStream(device, issuing))
        elif shared is not None and on_one_host:
            memory = SharedMemory(self._place, self._size, self._exchange, shared)
            self._verbs = InSharedMemory(memory, self._in_order)
        else:
            self._verbs = Distributed(group, device, self._waiting, self._in_order, self._holding)

    def _exchange(self, numbers: list[int]) -> list[list[int]]:
        """Gather equally many numbers from every member; return them by rank."""
        own = torch.tensor(numbers)
        gathered = [torch.empty_like(own) for _ in range(self._size)]
        with translated_errors():
            dist.all_gather(gathered, own, group=self._process_group)
        return [row.tolist() for row in gathered]

    def begin(self, pending: Pending[object], number: int) -> Finish | None:
        """Begin a call; return the function that finishes it, or None if it is already complete."""
        if self._size == 1:
            inprocess.complete([pending])
            return None
        group, call = pending.group, pending.call
        match call.verb:
            case "mean":
                return self._verbs.mean(group, call, number)
            case "gather":
                return self._verbs.gather(group, call, number)
            case "broadcast":
                return self._verbs.broadcast(group, call, number)
        return self._verbs.push_pull(group, call, number)

    def send(self, group: Group, call: Call) -> None:
        """Send a message without waiting for its receiver."""
        to = call.partner
        self._sent[to] += 1
        if to == self._place:
            self._to_itself[self._sent[to]] = copy(call.payload)
        else:
            metering.begins(call)
            left = None if call.recorded is None else partial(metering.ends, call)
            self._messages.send(call.payload, [to], self._sent[to], call.ragged, left)
        metering.send(group, bytes_by_kind(call.payload, call.ragged), to)

    def receive(self, group: Group, call: Call) -> Finish:
        """Begin to receive the next message from a member; return the function that finishes it."""
        source = call.partner
        self._received[source] += 1
        number = self._received[source]
        if source == self._place:
            return lambda: self._take_own(number)
        take = partial(self._messages.receive, [source], number)
        received = self._waiting.submit(metering.timed(call, take))

        def finish() -> Payload:
            ((payload, call.ragged),) = received.result()
            metering.receive(group, bytes_by_kind(payload, call.ragged), source)
            return payload

        return finish

    def _take_own(self, number: int) -> Payload:
        if number not in self._to_itself:
            raise MethodError(f"rank {self._place} waits for a message from itself that it has not sent")
        return self._to_itself.pop(number)

    def summary(self) -> Summary:
        """Return what the members compare with each other."""
        places = range(self._size)
        return {
            "calls": [self.log.count, self.log.digest],
            "sent": [self._sent[place] for place in places],
            "received": [self._received[place] for place in places],
        }

    def close(self) -> None:
        """Release threads, memory and the process group. All members must do so at the same time."""
        if self._size == 1:
            return
        self._messages.close()
        self._holding.shutdown()
        self._verbs.close()
        self._in_order.shutdown()
        self._waiting.shutdown()
        dist.destroy_process_group(self._process_group)


def begin_thread(device: torch.device) -> None:
    """Begin a thread that works for a worker on `device`."""
    # In torch, the number of compute threads is a setting of each thread.
    torch.set_num_threads(1)
    make_current(device)
