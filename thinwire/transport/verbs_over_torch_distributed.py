"""The verbs of a channel between hosts, over torch.distributed.

Each verb starts its communication at once and returns a function. The worker calls that function when it
waits for the answer; it finishes the communication and returns the answer.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor

from thinwire.call import Call
from thinwire.group import Group
from thinwire.traffic.payload import Payload, bytes_by_kind, copy, nbytes
from thinwire.transport import call_times, flatten, ledger_entries, payload_format
from thinwire.transport.matching_payloads import bytes_of_each
from thinwire.transport.point_to_point import FIRST_TAG_OF_CALLS, PointToPoint
from thinwire.transport.rendezvous import translated_errors

Finish = Callable[[], object]


class Distributed:
    """One worker's end of a channel whose members sit on several hosts."""

    def __init__(
        self,
        group: dist.ProcessGroup,
        device: torch.device,
        pool: flatten.Pool,
        waiting: ThreadPoolExecutor,
        serving: ThreadPoolExecutor,
    ) -> None:
        self._process_group, self._pool = group, pool
        self._messages = PointToPoint(group, device, FIRST_TAG_OF_CALLS)
        self._waiting = waiting  # threads that wait for messages
        self._serving = serving  # one thread, so that servers process the calls in order

    def close(self) -> None:
        """Wait until all messages have been taken."""
        self._messages.close()

    def mean(self, group: Group, call: Call, number: int) -> Finish:
        """Ring all-reduce; 16-bit numbers are divided before it, because their sum may overflow."""
        tensors = [t.clone() for t in call.tensors] if call.fresh else call.tensors
        if not call.fresh:
            ledger_entries.mean(group, call.kind, nbytes(tensors))
        under_way = []
        for same_type in flatten.by_dtype(tensors):
            row = same_type[0].view(-1) if flatten.is_flat(same_type) else self._pool.take(same_type)
            if not flatten.is_flat(same_type):
                flatten.fill(row, same_type)
            if row.element_size() == 2:
                row /= group.size
            with translated_errors():
                work = dist.all_reduce(row, group=self._process_group, async_op=True)
            call_times.follow(call, work, row.is_cpu)
            under_way.append((same_type, row, work))

        def finish() -> list[Tensor]:
            for same_type, row, work in under_way:
                with translated_errors():
                    work.wait()
                divisor = 1 if row.element_size() == 2 else group.size
                for tensor, total in zip(same_type, flatten.parts(row, same_type)):
                    torch.div(total, divisor, out=tensor)
                if not flatten.is_flat(same_type):
                    self._pool.give_back(row)
            return tensors

        return finish

    def broadcast(self, group: Group, call: Call, number: int) -> Finish:
        ledger_entries.broadcast(group, call.kind, nbytes(call.tensors), call.partner)
        under_way = []
        for same_type in flatten.by_dtype(call.tensors):
            row = self._pool.take(same_type)
            if group.rank == call.partner:
                flatten.fill(row, same_type)
            with translated_errors():
                work = dist.broadcast(row, group_src=call.partner, group=self._process_group, async_op=True)
            call_times.follow(call, work, row.is_cpu)
            under_way.append((same_type, row, work))

        def finish() -> list[Tensor]:
            for same_type, row, work in under_way:
                with translated_errors():
                    work.wait()
                if group.rank != call.partner:
                    torch._foreach_copy_(same_type, flatten.parts(row, same_type))
                self._pool.give_back(row)
            return call.tensors

        return finish

    def gather(self, group: Group, call: Call, number: int) -> Finish:
        """Payloads of one size: ring all-gather. Ragged payloads: every member sends to every other."""
        return (self._gather_ragged if call.ragged else self._gather_equal)(group, call, number)

    def _gather_equal(self, group: Group, call: Call, number: int) -> Finish:
        header, body = payload_format.pack(call.payload, ragged=False)
        bodies = [torch.empty_like(body) for _ in range(group.size)]
        with translated_errors():
            work = (
                dist.all_gather(bodies, body, group=self._process_group, async_op=True) if len(body) else None
            )
        if work is not None:
            call_times.follow(call, work, body.is_cpu)
        size = bytes_by_kind(call.payload, ragged=False)
        ledger_entries.gather(group, {kind: [own] * group.size for kind, own in size.items()})

        def finish() -> list[Payload]:
            if work is not None:
                with translated_errors():
                    work.wait()
            return [payload_format.unpack(header, body) for body in bodies]

        return finish

    def _gather_ragged(self, group: Group, call: Call, number: int) -> Finish:
        others = [member for member in range(group.size) if member != group.rank]
        call_times.begins(call)
        self._messages.send(call.payload, others, 2 * number, ragged=True)
        own = copy(call.payload)
        receive = partial(self._messages.receive, others, 2 * number)
        received = self._waiting.submit(call_times.timed(call, receive))

        def finish() -> list[Payload]:
            payloads = [message.payload for message in received.result()]
            payloads.insert(group.rank, own)
            ledger_entries.gather(group, bytes_of_each(payloads, ragged=True))
            return payloads

        return finish

    def push_pull(self, group: Group, call: Call, number: int) -> Finish:
        """Push to the server's worker, where a thread answers as soon as all pushes have arrived."""
        pushing, pulling = 2 * number, 2 * number + 1
        others = [member for member in range(group.size) if member != group.rank]
        if group.rank != call.partner:
            call_times.begins(call)
            self._messages.send(call.payload, [call.partner], pushing, call.ragged)
            receive = partial(self._messages.receive, [call.partner], pulling)
            received = self._waiting.submit(call_times.timed(call, receive))

            def pulled() -> Payload:
                (message,) = received.result()
                own = bytes_by_kind(call.payload, call.ragged)
                ledger_entries.push(
                    group, {kind: [size] * group.size for kind, size in own.items()}, call.partner
                )
                ledger_entries.pull(group, bytes_by_kind(message.payload, call.ragged), call.partner)
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

        served = self._serving.submit(call_times.timed(call, serve))

        def answered() -> Payload:
            sizes, answer = served.result()
            ledger_entries.push(group, sizes, call.partner)
            ledger_entries.pull(group, bytes_by_kind(answer, call.ragged), call.partner)
            return answer

        return answered
