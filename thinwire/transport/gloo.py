"""Collectives and messages over torch.distributed in the memory of the host.

Each verb of `Distributed` starts its communication at once.

Tags identify the messages of `PointToPoint`, so a receiver may ask for them in any order. Payloads go through
the memory of the host, even if they come from a GPU. The reason is that NCCL has no tags
(pytorch/pytorch#125079). There, a send may block all later work until its receiver asks for it, so workers
that all send first would wait for ever (NVIDIA/nccl#479).
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from queue import Queue
from threading import Thread
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from thinwire.traffic.payload import Payload, bytes_by_kind, copy, nbytes
from thinwire.transport import metering, wire_format
from thinwire.transport.call import Call, Finish, Group
from thinwire.transport.in_turn import InTurn
from thinwire.transport.mean import flat_share, write_mean
from thinwire.transport.metering import bytes_of_each
from thinwire.transport.rendezvous import translated_errors

# Tags of torch.distributed have 31 bits. A message needs two tags: one for its header and one for its body.
_TAGS = 2**30
# Two objects use one process group, so they need separate tags. One numbers its messages by calls, the other
# one counts them.
FIRST_TAG_OF_CALLS, FIRST_TAG_OF_MESSAGES = 0, _TAGS


class Received(NamedTuple):
    """A payload that has arrived."""

    payload: Payload
    ragged: bool


class PointToPoint:
    """Sends and receives one worker's payloads on one channel; its methods are thread-safe."""

    def __init__(self, group: dist.ProcessGroup, device: torch.device, first_tag: int) -> None:
        self._group = group
        self._device = device
        self._first_tag = first_tag
        # Sent, but perhaps not yet received: until then the tensors must be kept, and only `wait` tells.
        self._sent: Queue[tuple[Callable[[], object], Tensor] | None] = Queue()
        self._keeper = Thread(target=self._keep_until_received, daemon=True)
        self._keeper.start()

    def send(
        self,
        payload: Payload,
        to: Sequence[int],
        tag: int,
        ragged: bool = False,
        left: Callable[[], None] | None = None,
    ) -> None:
        """Send a payload to members of the channel without waiting for them.

        Args:
            payload: flat tensors by kind.
            to: the ranks of the receivers.
            tag: of the message.
            ragged: are its sizes unknown to the receivers?
            left: called in a thread as soon as a part of the message has left.
        """
        header, body = wire_format.pack(payload, ragged)
        for part_number, part in enumerate((header, body.cpu())):
            for member in to if len(part) else ():
                with translated_errors():
                    work = self._group.send([part], member, self._tag(tag, part_number))
                self._sent.put((work.wait if left is None else _followed(work, left), part))

    def receive(self, sources: Sequence[int], tag: int) -> list[Received]:
        """Wait for a payload from each of the members."""
        headers = [torch.empty(wire_format.HEADER, dtype=torch.int64) for _ in sources]
        bodies = []
        with translated_errors():
            receiving = [
                self._group.recv([header], source, self._tag(tag, 0))
                for header, source in zip(headers, sources)
            ]
            for work, header, source in zip(list(receiving), headers, sources):
                work.wait()
                bodies.append(torch.empty(wire_format.body_bytes(header), dtype=torch.uint8))
                if len(bodies[-1]):
                    receiving.append(self._group.recv([bodies[-1]], source, self._tag(tag, 1)))
            for work in receiving[len(headers) :]:
                work.wait()
        return [
            Received(wire_format.unpack(header, body.to(self._device)), wire_format.is_ragged(header))
            for header, body in zip(headers, bodies)
        ]

    def close(self) -> None:
        """Wait until everything that was sent has been received."""
        self._sent.put(None)
        self._keeper.join()

    def _keep_until_received(self) -> None:
        while (sent := self._sent.get()) is not None:
            # If this fails, the receiver has ended; so will the run.
            wait, _ = sent
            with suppress(RuntimeError):
                wait()

    def _tag(self, tag: int, part_number: int) -> int:
        return self._first_tag + (2 * tag + part_number) % _TAGS


def _followed(work: dist.Work, left: Callable[[], None]) -> Callable[[], object]:
    """Call `left` as soon as `work` is done; return a function that waits until then.

    gloo says that a message has left only to a thread that waits for this message. One whose receiver is late
    must not delay what is known of those behind it, so each has a thread.
    """

    def follow() -> None:
        with suppress(RuntimeError):
            work.wait()
            left()

    thread = Thread(target=follow, daemon=True)
    thread.start()
    return thread.join


class Distributed:
    """One worker's end of a channel whose members sit on several hosts."""

    def __init__(
        self,
        group: dist.ProcessGroup,
        device: torch.device,
        pool: wire_format.Pool,
        waiting: ThreadPoolExecutor,
        serving: ThreadPoolExecutor,
        holding: ThreadPoolExecutor,
    ) -> None:
        self._process_group, self._pool = group, pool
        self._turns = InTurn(holding)
        self._messages = PointToPoint(group, device, FIRST_TAG_OF_CALLS)
        self._waiting = waiting  # threads that wait for messages
        self._serving = serving  # one thread, so that servers process the calls in order

    def close(self) -> None:
        """Wait until all messages have been taken."""
        self._messages.close()

    def mean(self, group: Group, call: Call, number: int) -> Finish:
        """Ring all-reduce, perhaps after others have ended."""
        tensors = [t.clone() for t in call.tensors] if call.fresh else call.tensors
        if not call.fresh:
            metering.mean(group, call.kind, nbytes(tensors))
        by_type = wire_format.by_dtype(tensors)
        rows = [flat_share(same_type, self._pool, group.size) for same_type in by_type]

        def start(row: Tensor) -> dist.Work | None:
            return dist.all_reduce(row, group=self._process_group, async_op=True)

        begun = self._begin(call, rows, start)

        def finish() -> list[Tensor]:
            for same_type, row, work in zip(by_type, rows, begun(), strict=True):
                with translated_errors():
                    work.wait()
                write_mean(row, same_type, self._pool, group.size)
            return tensors

        return finish

    def broadcast(self, group: Group, call: Call, number: int) -> Finish:
        metering.broadcast(group, call.kind, nbytes(call.tensors), call.partner)
        by_type = wire_format.by_dtype(call.tensors)
        rows = [self._pool.take(same_type) for same_type in by_type]
        for same_type, row in zip(by_type, rows):
            if group.rank == call.partner:
                wire_format.fill(row, same_type)

        def start(row: Tensor) -> dist.Work | None:
            return dist.broadcast(row, group_src=call.partner, group=self._process_group, async_op=True)

        begun = self._begin(call, rows, start)

        def finish() -> list[Tensor]:
            for same_type, row, work in zip(by_type, rows, begun(), strict=True):
                with translated_errors():
                    work.wait()
                if group.rank != call.partner:
                    torch._foreach_copy_(same_type, wire_format.parts(row, same_type))
                self._pool.give_back(row)
            return call.tensors

        return finish

    def gather(self, group: Group, call: Call, number: int) -> Finish:
        """Payloads of one size: ring all-gather. Ragged payloads: every member sends to every other."""
        return (self._gather_ragged if call.ragged else self._gather_equal)(group, call, number)

    def _gather_equal(self, group: Group, call: Call, number: int) -> Finish:
        header, body = wire_format.pack(call.payload, ragged=False)
        bodies = [torch.empty_like(body) for _ in range(group.size)]

        def start(row: Tensor) -> dist.Work | None:
            return dist.all_gather(bodies, row, group=self._process_group, async_op=True)

        begun = self._begin(call, [body] if len(body) else [], start)
        size = bytes_by_kind(call.payload, ragged=False)
        metering.gather(group, {kind: [own] * group.size for kind, own in size.items()})

        def finish() -> list[Payload]:
            for work in begun():
                with translated_errors():
                    work.wait()
            return [wire_format.unpack(header, body) for body in bodies]

        return finish

    def _begin(
        self, call: Call, rows: list[Tensor], start: Callable[[Tensor], dist.Work | None]
    ) -> Callable[[], list[dist.Work]]:
        """Begin a collective call on each row in its turn; return what waits until they have begun."""

        def begin() -> list[dist.Work]:
            works = []
            for row in rows:
                with translated_errors():
                    work = start(row)
                assert work is not None
                metering.follow(call, work, row.is_cpu)
                works.append(work)
            return works

        return self._turns.begin(call, begin)

    def _gather_ragged(self, group: Group, call: Call, number: int) -> Finish:
        others = [member for member in range(group.size) if member != group.rank]
        metering.begins(call)
        self._messages.send(call.payload, others, 2 * number, ragged=True)
        own = copy(call.payload)
        receive = partial(self._messages.receive, others, 2 * number)
        received = self._waiting.submit(metering.timed(call, receive))

        def finish() -> list[Payload]:
            payloads = [message.payload for message in received.result()]
            payloads.insert(group.rank, own)
            metering.gather(group, bytes_of_each(payloads, ragged=True))
            return payloads

        return finish

    def push_pull(self, group: Group, call: Call, number: int) -> Finish:
        """Push to the server's worker, where a thread answers as soon as all pushes have arrived."""
        pushing, pulling = 2 * number, 2 * number + 1
        others = [member for member in range(group.size) if member != group.rank]
        if group.rank != call.partner:
            metering.begins(call)
            self._messages.send(call.payload, [call.partner], pushing, call.ragged)
            receive = partial(self._messages.receive, [call.partner], pulling)
            received = self._waiting.submit(metering.timed(call, receive))

            def pulled() -> Payload:
                (message,) = received.result()
                own = bytes_by_kind(call.payload, call.ragged)
                metering.push(group, {kind: [size] * group.size for kind, size in own.items()}, call.partner)
                metering.pull(group, bytes_by_kind(message.payload, call.ragged), call.partner)
                return message.payload

            return pulled

        own = copy(call.payload)

        def serve() -> tuple[dict[str, list[int]], Payload]:
            pushes = [message.payload for message in self._messages.receive(others, pushing)]
            pushes.insert(group.rank, own)
            sizes = bytes_of_each(pushes, call.ragged)
            # A copy, because the server may continue to change the tensors of its answer.
            answer = copy(call.serve(pushes))
            self._messages.send(answer, others, pulling, call.ragged)
            return sizes, answer

        served = self._serving.submit(metering.timed(call, serve))

        def answered() -> Payload:
            sizes, answer = served.result()
            metering.push(group, sizes, call.partner)
            metering.pull(group, bytes_by_kind(answer, call.ragged), call.partner)
            return answer

        return answered
