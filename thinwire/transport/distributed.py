"""The verbs of a channel between hosts, over torch.distributed.

Each begins when it is posted and gives what is left to do when its worker waits for it.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from thinwire.call import Call, nbytes
from thinwire.group import Group
from thinwire.traffic.payload import Payload, copy
from thinwire.transport import flatten, message, metering
from thinwire.transport.agreement import agreed
from thinwire.transport.connection_errors import translated_errors
from thinwire.transport.point_to_point import FIRST_TAG_OF_CALLS, PointToPoint

Finish = Callable[[], Any]


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
        self._mail = PointToPoint(group, device, FIRST_TAG_OF_CALLS)
        self._waiting = waiting  # threads that wait for messages
        self._serving = serving  # one thread, so that servers see the calls in their order

    def close(self) -> None:
        self._mail.close()

    def mean(self, group: Group, call: Call, number: int) -> Finish:
        """Ring all-reduce; in 16 bits of what was divided first, as the sum may overflow."""
        tensors = [t.clone() for t in call.tensors] if call.fresh else call.tensors
        if not call.fresh:
            metering.mean(group, call.kind, nbytes(tensors))
        under_way = []
        for alike in flatten.by_dtype(tensors):
            row = alike[0].view(-1) if flatten.is_flat(alike) else self._pool.take(alike)
            if not flatten.is_flat(alike):
                flatten.fill(row, alike)
            if row.element_size() == 2:
                row /= group.size
            with translated_errors():
                under_way.append((alike, row, dist.all_reduce(row, group=self._process_group, async_op=True)))

        def finish() -> list[Tensor]:
            for alike, row, work in under_way:
                with translated_errors():
                    work.wait()
                divisor = 1 if row.element_size() == 2 else group.size
                for tensor, total in zip(alike, flatten.parts(row, alike)):
                    torch.div(total, divisor, out=tensor)
                if not flatten.is_flat(alike):
                    self._pool.give_back(row)
            return tensors

        return finish

    def broadcast(self, group: Group, call: Call, number: int) -> Finish:
        metering.broadcast(group, call.kind, nbytes(call.tensors), call.partner)
        under_way = []
        for alike in flatten.by_dtype(call.tensors):
            row = self._pool.take(alike)
            if group.rank == call.partner:
                flatten.fill(row, alike)
            with translated_errors():
                work = dist.broadcast(row, group_src=call.partner, group=self._process_group, async_op=True)
            under_way.append((alike, row, work))

        def finish() -> list[Tensor]:
            for alike, row, work in under_way:
                with translated_errors():
                    work.wait()
                if group.rank != call.partner:
                    torch._foreach_copy_(alike, flatten.parts(row, alike))
                self._pool.give_back(row)
            return call.tensors

        return finish

    def gather(self, group: Group, call: Call, number: int) -> Finish:
        """Ring all-gather of payloads of one size; of ragged ones everybody writes to everybody."""
        return (self._gather_ragged if call.ragged else self._gather_equal)(group, call, number)

    def _gather_equal(self, group: Group, call: Call, number: int) -> Finish:
        header, body = message.pack(call.payload, ragged=False)
        bodies = [torch.empty_like(body) for _ in range(group.size)]
        with translated_errors():
            work = (
                dist.all_gather(bodies, body, group=self._process_group, async_op=True) if len(body) else None
            )
        size = metering.sizes(call.payload, ragged=False)
        metering.gather(group, {kind: [own] * group.size for kind, own in size.items()})

        def finish() -> list[Payload]:
            if work is not None:
                with translated_errors():
                    work.wait()
            return [message.unpack(header, given) for given in bodies]

        return finish

    def _gather_ragged(self, group: Group, call: Call, number: int) -> Finish:
        others = [member for member in range(group.size) if member != group.rank]
        self._mail.send(call.payload, others, 2 * number, ragged=True)
        own = copy(call.payload)
        coming = self._waiting.submit(self._mail.receive, others, 2 * number)

        def finish() -> list[Payload]:
            payloads = [message.payload for message in coming.result()]
            payloads.insert(group.rank, own)
            metering.gather(group, agreed(payloads, ragged=True))
            return payloads

        return finish

    def push_pull(self, group: Group, call: Call, number: int) -> Finish:
        """A push to the server's worker, whose thread answers when all are there."""
        pushing, pulling = 2 * number, 2 * number + 1
        others = [member for member in range(group.size) if member != group.rank]
        if group.rank != call.partner:
            self._mail.send(call.payload, [call.partner], pushing, call.ragged)
            coming = self._waiting.submit(self._mail.receive, [call.partner], pulling)

            def pulled() -> Payload:
                (message,) = coming.result()
                own = metering.sizes(call.payload, call.ragged)
                metering.push(group, {kind: [size] * group.size for kind, size in own.items()}, call.partner)
                metering.pull(group, metering.sizes(message.payload, call.ragged), call.partner)
                return message.payload

            return pulled

        own = copy(call.payload)

        def serve() -> tuple[dict[str, list[int]], Payload]:
            pushes = [message.payload for message in self._mail.receive(others, pushing)]
            pushes.insert(group.rank, own)
            sizes = agreed(pushes, call.ragged)
            # A copy: the server may go on with what it has answered.
            answer = copy(call.serve(pushes))
            self._mail.send(answer, others, pulling, call.ragged)
            return sizes, answer

        served = self._serving.submit(serve)

        def answered() -> Payload:
            sizes, answer = served.result()
            metering.push(group, sizes, call.partner)
            metering.pull(group, metering.sizes(answer, call.ragged), call.partner)
            return answer

        return answered
