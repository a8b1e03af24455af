"""The verbs of a channel whose members sit on several hosts, over torch.distributed.

`torch.distributed` matches the calls of several processes by their order. So if one call is held back until
others have ended, all later ones wait behind it, in a thread of their own.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor

from thinwire.traffic.payload import Payload, bytes_by_kind, copy
from thinwire.transport import flat_tensors, messages, metering
from thinwire.transport.call import Call, Finish, Group
from thinwire.transport.messages import FIRST_TAG_OF_CALLS, PointToPoint
from thinwire.transport.metering import bytes_of_each, bytes_of_equal
from thinwire.transport.rendezvous import translated_errors

Works = list[dist.Work]


class InTurn:
    """Begins the collective calls of one channel in the order in which a thread posts them."""

    def __init__(self, holding: ThreadPoolExecutor) -> None:
        self._holding = holding  # one thread, in which calls are held back
        self._held: Future[Works] | None = None  # the last call that was held back

    def begin(self, call: Call, start: Callable[[], Works]) -> Callable[[], Works]:
        """Let `start` begin a call now or in its turn; return a function that waits until it has begun."""
        before = [begun for pending in call.after if (begun := pending.call.begun) is not None]
        if all(map(_has_ended, before)) and (self._held is None or self._held.done()):
            own: Future[Works] = Future()
            own.set_result(start())
        else:
            own = self._held = self._holding.submit(_hold, before, start)
        call.begun = own
        return own.result


def _has_ended(begun: Future[Works]) -> bool:
    return begun.done() and all(work.is_completed() for work in begun.result())


def _hold(before: list[Future[Works]], start: Callable[[], Works]) -> Works:
    for begun in before:
        for work in begun.result():
            with translated_errors():
                work.wait()
    return start()


class Distributed:
    """One worker's end of a channel whose members sit on several hosts."""

    def __init__(
        self,
        group: dist.ProcessGroup,
        device: torch.device,
        waiting: ThreadPoolExecutor,
        serving: ThreadPoolExecutor,
        holding: ThreadPoolExecutor,
    ) -> None:
        self._process_group, self._pool = group, flat_tensors.Pool()
        self._turns = InTurn(holding)
        self._messages = PointToPoint(group, device, FIRST_TAG_OF_CALLS)
        self._waiting = waiting  # threads that wait for messages
        self._serving = serving  # one thread, so that servers process the calls in order
        self.close = self._messages.close

    def mean(self, group: Group, call: Call, number: int) -> Finish:
        """Ring all-reduce, perhaps after others have ended."""
        tensors = [t.clone() for t in call.tensors] if call.fresh else call.tensors
        by_type = flat_tensors.by_dtype(tensors)
        rows = [flat_tensors.flat_share(same_type, self._pool, group.size) for same_type in by_type]
        ended = self._begin(call, rows, partial(dist.all_reduce, group=self._process_group, async_op=True))

        def finish() -> list[Tensor]:
            for same_type, row in zip(by_type, ended()):
                flat_tensors.write_mean(row, same_type, self._pool, group.size)
            return tensors

        return finish

    def broadcast(self, group: Group, call: Call, number: int) -> Finish:
        by_type = flat_tensors.by_dtype(call.tensors)
        rows = [self._pool.take(same_type) for same_type in by_type]
        for same_type, row in zip(by_type, rows):
            if group.rank == call.partner:
                flat_tensors.fill(row, same_type)

        def start(row: Tensor) -> dist.Work | None:
            return dist.broadcast(row, group_src=call.partner, group=self._process_group, async_op=True)

        ended = self._begin(call, rows, start)

        def finish() -> list[Tensor]:
            for same_type, row in zip(by_type, ended()):
                if group.rank != call.partner:
                    torch._foreach_copy_(same_type, flat_tensors.parts(row, same_type))
                self._pool.give_back(row)
            return call.tensors

        return finish

    def gather(self, group: Group, call: Call, number: int) -> Finish:
        """Payloads of one size: ring all-gather. Ragged payloads: every member sends to every other."""
        if call.ragged:
            return self._gather_ragged(group, call, number)
        header, body = messages.pack(call.payload, ragged=False)
        bodies = [torch.empty_like(body) for _ in range(group.size)]

        def start(row: Tensor) -> dist.Work | None:
            return dist.all_gather(bodies, row, group=self._process_group, async_op=True)

        ended = self._begin(call, [body] if len(body) else [], start)
        metering.gather(group, bytes_of_equal(call, group.size))

        def finish() -> list[Payload]:
            list(ended())
            return [messages.unpack(header, body) for body in bodies]

        return finish

    def _begin(
        self, call: Call, rows: list[Tensor], start: Callable[[Tensor], dist.Work | None]
    ) -> Callable[[], Iterator[Tensor]]:
        """Begin a collective call on each row in its turn; return what gives each row when it has ended."""

        def begin() -> Works:
            works = []
            for row in rows:
                with translated_errors():
                    work = start(row)
                assert work is not None
                metering.follow(call, work, row.is_cpu)
                works.append(work)
            return works

        begun = self._turns.begin(call, begin)

        def ended() -> Iterator[Tensor]:
            for row, work in zip(rows, begun()):
                with translated_errors():
                    work.wait()
                yield row

        return ended

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
                pulled = bytes_by_kind(message.payload, call.ragged)
                metering.push_pull(group, bytes_of_equal(call, group.size), pulled, call.partner)
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
            metering.push_pull(group, sizes, bytes_by_kind(answer, call.ragged), call.partner)
            return answer

        return answered
