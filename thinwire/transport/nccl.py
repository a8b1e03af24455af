"""Collectives and messages between GPUs.

All verbs use the process group of the GPUs, so all methods use one network, whatever verbs they call. A
separate thread issues the calls of all channels, one after the other. The reason is that torch requires one
order on all ranks if there are several groups with NCCL: see `torch.distributed.new_group`.
"""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional

from thinwire.traffic.payload import Payload, bytes_by_kind
from thinwire.transport import flat_tensors, messages, metering
from thinwire.transport.call import Call, Finish, Group, Outcomes, Together
from thinwire.transport.device import SideStream
from thinwire.transport.flat_tensors import PartMean
from thinwire.transport.metering import bytes_of_each, bytes_of_equal
from thinwire.transport.rendezvous import translated_errors

Transfer = tuple[Callable[..., dist.Work | None], Tensor, int]  # `isend` or `irecv`, a row, another member
# Before torch 2.13 these had other names.
_all_gather_single = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_reduce_scatter_single = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


class OnDeviceGroup:
    """One worker's end of a channel whose members use the process group of their GPUs."""

    def __init__(self, group: dist.ProcessGroup, device: torch.device, stream: SideStream) -> None:
        self._process_group, self._device, self._stream = group, device, stream
        self._rank, self._size = group.rank(), group.size()
        # Headers of the answers that are not ragged; see `Call.asked`.
        self._known: dict[tuple[str, ...], Tensor] = {}
        self._pool = flat_tensors.Pool()  # used in the side stream only

    def close(self) -> None:
        """Do nothing: the thread and the process group are closed by those who have opened them."""

    def mean(self, group: Group, call: Call, number: int) -> Finish:
        """Ring all-reduce."""

        def exchange() -> list[Tensor]:
            tensors = [t.clone() for t in call.tensors] if call.fresh else call.tensors
            for same_type in flat_tensors.by_dtype(tensors):
                row = flat_tensors.flat_share(same_type, self._pool, self._size)
                with translated_errors():
                    dist.all_reduce(row, group=self._process_group)
                flat_tensors.write_mean(row, same_type, self._pool, self._size)
            return tensors

        wait = self._stream.submit(call, exchange)

        def finish() -> list[Tensor]:
            tensors = wait()
            if call.fresh:
                self._stream.hand_over(tensors)
            return tensors

        return finish

    def broadcast(self, group: Group, call: Call, number: int) -> Finish:
        """Send along a chain."""

        def exchange() -> list[Tensor]:
            for same_type in flat_tensors.by_dtype(call.tensors):
                row = self._pool.take(same_type)
                if group.rank == call.partner:
                    flat_tensors.fill(row, same_type)
                with translated_errors():
                    dist.broadcast(row, group_src=call.partner, group=self._process_group)
                if group.rank != call.partner:
                    torch._foreach_copy_(same_type, flat_tensors.parts(row, same_type))
                self._pool.give_back(row)
            return call.tensors

        return self._stream.submit(call, exchange)

    def gather(self, group: Group, call: Call, number: int) -> Finish:
        """Ring all-gather; before it, one of the sizes if the payloads are ragged.

        Ragged payloads are padded to the largest one. `torch.distributed.all_gather` takes tensors of
        different sizes, but with NCCL it is no ring then: each member broadcasts its own (NVIDIA/nccl#773).
        """

        def exchange() -> list[Payload]:
            own, (body,) = self._packed([call.payload], call.ragged)
            headers = self._headers(own, call.ragged)[:, 0]
            largest = max(map(messages.body_bytes, headers))
            bodies = self._all_gather(functional.pad(body, (0, largest - len(body))))
            return [messages.unpack(header, body) for header, body in zip(headers, bodies)]

        wait = self._stream.submit(call, exchange)

        def finish() -> list[Payload]:
            payloads = wait()
            self._stream.hand_over(tensor for payload in payloads for tensor in payload.values())
            metering.gather(group, bytes_of_each(payloads, call.ragged))
            return payloads

        return finish

    def push_pull(self, group: Group, call: Call, number: int) -> Finish:
        """Push to the server's worker, and pull its answer, over a direct link to each of the others.

        Pushes that belong together take one exchange, and so do their answers.
        """
        together = call.together
        if together is None:
            together = Together()
            together.calls.append(call)
            together.wait = self._carry(together)
        else:
            together.carry = self._carry

        def finish() -> Payload:
            pushed, answer = together.wait()[call.place]
            mine = together.reduces and group.rank == call.partner
            self._stream.hand_over([_part_mean(call).mean] if mine else answer.values())
            metering.push_pull(group, pushed, bytes_by_kind(answer, call.ragged), call.partner)
            return answer

        return finish

    def _carry(self, together: Together) -> Callable[[], Outcomes]:
        first, *further = calls = together.calls
        exchange = self._reduce_scatter if together.reduces else self._through_servers
        return self._stream.submit(first, lambda: exchange(calls), further)

    def _reduce_scatter(self, calls: list[Call]) -> Outcomes:
        """Ring reduce-scatter; all parts are as long as the longest, and what is behind them is not used."""
        parts = [part for call in calls for part in call.payload.values()]
        longest = max(parts, key=len)
        mean = torch.empty_like(longest)
        if len(longest):
            row = self._pool.take([longest] * self._size)
            room = [whole[: len(part)] for whole, part in zip(row.view(self._size, -1), parts)]
            torch._foreach_copy_(room, parts)
            flat_tensors.divide_before_sum([row], self._size)
            with translated_errors():
                _reduce_scatter_single(mean, row, group=self._process_group)
            self._pool.give_back(row)
            flat_tensors.divide_after_sum([mean], self._size)
        _part_mean(calls[self._rank]).mean = mean[: len(parts[self._rank])]
        return [(bytes_of_equal(call, self._size), {}) for call in calls]

    def _through_servers(self, calls: list[Call]) -> Outcomes:
        """Push everything, let the servers on this worker answer, and pull everything."""
        pushed, answers = [], []
        for call, pushes in zip(calls, self._push(calls)):
            here = self._rank == call.partner
            pushed.append(bytes_of_each(pushes, call.ragged) if here else bytes_of_equal(call, self._size))
            answers.append(call.serve(pushes) if here else {})
        return list(zip(pushed, self._pull(calls, answers), strict=True))

    def _push(self, calls: list[Call]) -> list[list[Payload]]:
        """Return for each call the payloads of all members on its server's worker, and nothing on others."""
        own, bodies = self._packed([call.payload for call in calls], calls[0].ragged)
        headers = self._headers(own, calls[0].ragged)
        transfers: list[Transfer] = []
        arriving = []
        for number, (call, body) in enumerate(zip(calls, bodies)):
            rows = []
            if self._rank == call.partner:
                rows = [self._empty(messages.body_bytes(header)) for header in headers[:, number]]
                rows[self._rank] = body
                transfers += [(dist.irecv, rows[other], other) for other in self._others()]
            else:
                transfers.append((dist.isend, body, call.partner))
            arriving.append(rows)
        self._transfer(transfers)
        return [
            [messages.unpack(header, row) for header, row in zip(headers[:, number], rows)]
            for number, rows in enumerate(arriving)
        ]

    def _pull(self, calls: list[Call], answers: list[Payload]) -> list[Payload]:
        """Return for each call its server's answer on all members; its tensors are new."""
        # This copies, because a server may continue to change the tensors of its answer.
        own, bodies = self._packed(answers, calls[0].ragged)
        transfers: list[Transfer] = []
        arriving = []
        for call, header, body in zip(calls, headers := self._headers_of_answers(calls, own), bodies):
            if self._rank == call.partner:
                transfers += [(dist.isend, body, other) for other in self._others()]
            else:
                body = self._empty(messages.body_bytes(header))
                transfers.append((dist.irecv, body, call.partner))
            arriving.append(body)
        self._transfer(transfers)
        return [messages.unpack(header, body) for header, body in zip(headers, arriving)]

    def _headers_of_answers(self, calls: list[Call], own: Tensor) -> list[Tensor]:
        """Return the header of each answer; they are exchanged once, or in every call if it is ragged.

        Args:
            calls: all of them ragged, or none.
            own: [calls, numbers], valid where the server is on this worker.
        """
        asked = [call.asked() for call in calls]
        ragged = calls[0].ragged
        if ragged or any(question not in self._known for question in asked):
            everybody = self._headers(own, ragged=True)
            found = [everybody[call.partner, number] for number, call in enumerate(calls)]
            if ragged:
                return found
            self._known |= dict(zip(asked, found))
        return [self._known[question] for question in asked]

    def _packed(self, payloads: list[Payload], ragged: bool) -> tuple[Tensor, list[Tensor]]:
        """Return the headers, [payloads, numbers] on the CPU, and the bodies on the device."""
        headers, bodies = zip(*(messages.pack(payload, ragged) for payload in payloads), strict=True)
        return torch.stack(headers), [body.to(self._device) for body in bodies]

    def _headers(self, own: Tensor, ragged: bool) -> Tensor:
        """Return the headers of all members, [members, payloads, numbers] on the CPU.

        They are equal unless the payloads are ragged.
        """
        if not ragged:
            return own.expand(self._size, *own.shape)
        return self._all_gather(own.flatten().to(self._device)).cpu().view(self._size, *own.shape)

    def _all_gather(self, row: Tensor) -> Tensor:
        """Return the rows of all members, [members, elements]; they must have equal lengths."""
        rows = row.new_empty(self._size * len(row))
        if len(row):
            with translated_errors():
                _all_gather_single(rows, row, group=self._process_group)
        return rows.view(self._size, len(row))

    def _transfer(self, parts: list[Transfer]) -> None:
        """Send and receive rows at once.

        In a batch, NCCL uses the communicator of the group, and opens none for a pair of members
        (pytorch/pytorch#160342). `torch.distributed.gather` would need rows of equal sizes.
        """
        ops = [
            dist.P2POp(op, row, group_peer=other, group=self._process_group)
            for op, row, other in parts
            if len(row)
        ]
        with translated_errors():
            for work in dist.batch_isend_irecv(ops) if ops else ():
                work.wait()

    def _others(self) -> list[int]:
        return [member for member in range(self._size) if member != self._rank]

    def _empty(self, size: int) -> Tensor:
        return torch.empty(size, dtype=torch.uint8, device=self._device)


def _part_mean(call: Call) -> PartMean:
    assert isinstance(call.server, PartMean)
    return call.server
