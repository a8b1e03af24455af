"""One worker's end of one channel, when its mates run in other processes."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
import torch.distributed as dist

from thinwire.call import Call, Pending
from thinwire.cluster import Cluster
from thinwire.errors import MethodError
from thinwire.group import Group
from thinwire.traffic.payload import Payload, copy
from thinwire.transport import flatten, inprocess, metering
from thinwire.transport.agreement import CallLog, Summary
from thinwire.transport.connection_errors import translated_errors
from thinwire.transport.distributed import Distributed
from thinwire.transport.in_shared_memory import InSharedMemory
from thinwire.transport.point_to_point import FIRST_TAG_OF_MESSAGES, PointToPoint
from thinwire.transport.shared_memory import SharedMemory

Finish = Callable[[], Any]
# Most threads of a channel that wait for messages at one time.
_WAITING = 64


class Endpoint:
    """Its process group, its threads, and what it has called so far."""

    def __init__(
        self,
        members: tuple[int, ...],
        group: dist.ProcessGroup | None,
        rank: int,
        cluster: Cluster,
        device: torch.device,
    ) -> None:
        """Open the channel; all members do.

        Args:
            members: ranks.
            group: theirs; None where there is only one.
            rank: of this worker.
            cluster: which workers share a host.
            device: of this worker's tensors.
        """
        self.log = CallLog()
        self._place = members.index(rank)
        self._size = len(members)
        self._sent: Counter[int] = Counter()  # messages, by receiver
        self._received: Counter[int] = Counter()  # messages, by sender
        self._to_itself: dict[int, Payload] = {}  # messages, by number
        if group is None:
            return
        self._process_group = group
        self._messages = PointToPoint(self._process_group, device, FIRST_TAG_OF_MESSAGES)
        self._waiting = ThreadPoolExecutor(_WAITING, initializer=_one_compute_thread)
        self._in_order = ThreadPoolExecutor(1, initializer=_one_compute_thread)
        self._verbs: Distributed | InSharedMemory
        if device.type == "cpu" and len({cluster.node_of(member) for member in members}) == 1:
            memory = SharedMemory(self._place, self._size, self._exchange)
            self._verbs = InSharedMemory(memory, self._in_order)
        else:
            self._verbs = Distributed(group, device, flatten.Pool(), self._waiting, self._in_order)

    def _exchange(self, numbers: list[int]) -> list[list[int]]:
        """As many numbers from every member, by rank."""
        own = torch.tensor(numbers)
        every = [torch.empty_like(own) for _ in range(self._size)]
        with translated_errors():
            dist.all_gather(every, own, group=self._process_group)
        return [row.tolist() for row in every]

    def begin(self, pending: Pending[Any], number: int) -> Finish | None:
        """Begin a call; gives what is left to do when its worker waits, or None if it is complete."""
        if self._size == 1:
            inprocess.meet([pending])
            return None
        verb: Callable[[Group, Call, int], Finish] = getattr(self._verbs, pending.call.verb)
        return verb(pending.group, pending.call, number)

    def send(self, group: Group, call: Call) -> None:
        """Send a message, and go on at once."""
        to = call.partner
        self._sent[to] += 1
        if to == self._place:
            self._to_itself[self._sent[to]] = copy(call.payload)
        else:
            self._messages.send(call.payload, [to], self._sent[to], call.ragged)
        metering.send(group, metering.sizes(call.payload, call.ragged), to)

    def receive(self, group: Group, call: Call) -> Finish:
        """Ask for the next message from a member."""
        source = call.partner
        self._received[source] += 1
        number = self._received[source]
        if source == self._place:
            return lambda: self._take_own(number)
        coming = self._waiting.submit(self._messages.receive, [source], number)

        def finish() -> Payload:
            ((payload, ragged),) = coming.result()
            metering.receive(group, metering.sizes(payload, ragged), source)
            return payload

        return finish

    def _take_own(self, number: int) -> Payload:
        if number not in self._to_itself:
            raise MethodError(f"rank {self._place} waits for a message from itself that it has not sent")
        return self._to_itself.pop(number)

    def summary(self) -> Summary:
        """What its mates compare with theirs."""
        places = range(self._size)
        return {
            "calls": [self.log.count, self.log.digest],
            "sent": [self._sent[place] for place in places],
            "received": [self._received[place] for place in places],
        }

    def close(self) -> None:
        """Give everything back; all members do."""
        if self._size == 1:
            return
        self._messages.close()
        self._verbs.close()
        self._in_order.shutdown()
        self._waiting.shutdown()
        dist.destroy_process_group(self._process_group)


def _one_compute_thread() -> None:
    # The number of threads that compute is each thread's own.
    torch.set_num_threads(1)
