"""The end of a channel in one process: which verbs it uses, and what its members compare.

The verbs are those in shared memory, over gloo or over NCCL. Of a call only a short digest is kept, which the
members compare now and then. To say which call differs, calls must be kept in words. That takes longer than
many a call, so it is done only for a worker that is being checked.
"""

from collections import Counter, deque
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import TypedDict
from zlib import crc32

import torch
import torch.distributed as dist

from thinwire.base.errors import MethodError
from thinwire.base.placement import Cluster
from thinwire.traffic import payload as payloads
from thinwire.traffic.payload import Payload, bytes_by_kind, copy, nbytes
from thinwire.transport import inprocess, metering
from thinwire.transport.call import Call, Finish, Group, Pending
from thinwire.transport.device import SideStream, make_current
from thinwire.transport.gloo import Distributed
from thinwire.transport.messages import FIRST_TAG_OF_MESSAGES, PointToPoint
from thinwire.transport.nccl import OnDeviceGroup
from thinwire.transport.rendezvous import translated_errors
from thinwire.transport.shared_memory import SharedMemory
from thinwire.transport.shared_tensors import SharedTensors

# How many of the last calls are kept in words.
REMEMBERED = 200


class Summary(TypedDict):
    """What one worker has done on one channel; the members compare their summaries."""

    calls: list[int]  # number and digest
    sent: list[int]  # messages, by receiver
    received: list[int]  # messages, by sender


class CallLog:
    """The calls of one worker on one channel: number and digest, and perhaps the last ones in words."""

    def __init__(self, in_words: bool) -> None:
        self.count = 0
        self.digest = 0
        self._in_words = in_words
        self._last: deque[str] = deque(maxlen=REMEMBERED)

    def note(self, call: Call) -> None:
        words = call.describe(self._in_words)
        if self._in_words:
            self._last.append(words)
            carries = str([tuple(tensor.shape) for tensor in call.tensors])
        else:
            described = payloads.describe(call.payload, call.ragged)
            carries = f"{len(call.tensors)} {nbytes(call.tensors)} {described}"
        self.count += 1
        self.digest = crc32(f"{words}{carries}".encode(), self.digest)

    def last(self) -> dict[str, str]:
        """Return the last calls in words, by number, if they are kept; the first call has number 1."""
        first = self.count - len(self._last) + 1
        return {str(first + i): words for i, words in enumerate(self._last)}


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
        self._verbs: OnDeviceGroup | SharedMemory | Distributed
        if issuing is not None:
            self._verbs = OnDeviceGroup(group, device, SideStream(device, issuing))
        elif shared is not None and on_one_host:
            self._verbs = SharedMemory(self._place, self._size, self._exchange, shared, self._in_order)
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
                if not call.fresh:
                    metering.mean(group, call.kind, nbytes(call.tensors))
                return self._verbs.mean(group, call, number)
            case "gather":
                return self._verbs.gather(group, call, number)
            case "broadcast":
                metering.broadcast(group, call.kind, nbytes(call.tensors), call.partner)
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


def disagreeing(summaries: list[dict[str, Summary]]) -> str | None:
    """A channel on which the workers have not made the same calls; None if there is none.

    Here and below, `summaries` has those of every worker, by channel.
    """
    for key in sorted({key for summary in summaries for key in summary}):
        if len({tuple(summary[key]["calls"]) for summary in summaries if key in summary}) > 1:
            return key
    return None


def first_difference(logs: dict[int, dict[str, str]]) -> str | None:
    """Describe the first call in which workers differ; None if there is none.

    A worker that has not made as many calls yet does not count as different.

    `logs` has what `CallLog.last` returned on each worker, by rank.
    """
    for number in sorted({number for log in logs.values() for number in log}, key=int):
        calls = {rank: log[number] for rank, log in logs.items() if number in log}
        first = next(iter(calls))
        for rank, call in calls.items():
            if call != calls[first]:
                return f"call {number}: rank {first} calls {calls[first]} and rank {rank} calls {call}"
    return None


def require_received(summaries: list[dict[str, Summary]]) -> None:
    """Raise a MethodError that names sender and receiver if a message has not been received."""
    for key in sorted({key for summary in summaries for key in summary}):
        members = [summary[key] for summary in summaries if key in summary]
        for source, sender in enumerate(members):
            for to, receiver in enumerate(members):
                sent, received = sender["sent"][to], receiver["received"][source]
                if sent != received:
                    raise MethodError(
                        f"rank {source} sent {sent} messages to rank {to} on run.{key.split('/')[0]}, which "
                        f"asked for {received}"
                    )
