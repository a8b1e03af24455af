"""Collectives and messages between GPUs.

All verbs use the process group of the GPUs, so all methods use one network, whatever verbs they call. A
separate thread issues the calls of all channels, one after the other. The reason is that torch requires one
order on all ranks if there are several groups with NCCL: see `torch.distributed.new_group`.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional

from thinwire.base.placement import on_gpu
from thinwire.traffic.payload import Payload, bytes_by_kind, nbytes
from thinwire.transport import metering, wire_format
from thinwire.transport.call import Call, Finish, Group
from thinwire.transport.mean import flat_share, write_mean
from thinwire.transport.metering import bytes_of_each
from thinwire.transport.rendezvous import translated_errors

T = TypeVar("T")


class SideStream:
    """Carries out calls in the order in which they are submitted, while the worker computes.

    On a CPU there are no streams: `torch.cpu` has the same functions, which do nothing.
    """

    def __init__(self, device: torch.device, issuing: Executor) -> None:
        """Open a stream of the current device.

        Args:
            device: of this worker's tensors.
            issuing: one thread, which issues the calls of all channels in the order of submission.
        """
        self._device, self._issuing = device, issuing
        self._module = torch.get_device_module(device)
        self._stream = self._module.Stream()

    def submit(self, call: Call, exchange: Callable[[], T]) -> Callable[[], T]:
        """Let the issuing thread run `exchange`; return a function that waits for its result.

        The work that `exchange` puts into its stream begins when the worker's stream has come to this place.
        Waiting lets the worker's stream wait for that work. The host only waits until it has been issued.
        """
        posted = self._current().record_event()

        def carry_out() -> tuple[T, torch.Event]:
            with torch.no_grad(), self._module.stream(self._stream):
                self._stream.wait_event(posted)
                return exchange(), self._stream.record_event()

        # On a GPU the thread does not see when the work begins and ends.
        timed = metering.timed(call, carry_out) if self._device.type == "cpu" else carry_out
        issued = self._issuing.submit(timed)

        def finish() -> T:
            result, done = issued.result()
            self._current().wait_event(done)
            return result

        return finish

    def hand_over(self, tensors: Iterable[Tensor]) -> None:
        """Tell the allocator that the worker's stream uses tensors that were allocated in this one.

        Otherwise their memory could be used again while the worker's stream still reads it: see
        `torch.Tensor.record_stream`.
        """
        for tensor in tensors:
            if on_gpu(tensor.device):
                tensor.record_stream(self._current())

    def _current(self) -> torch.Stream:
        return self._module.current_stream(self._device)


class OnDeviceGroup:
    """One worker's end of a channel whose members use the process group of their GPUs."""

    def __init__(self, group: dist.ProcessGroup, device: torch.device, stream: SideStream) -> None:
        self._process_group, self._device, self._stream = group, device, stream
        self._rank, self._size = group.rank(), group.size()
        self._pool = wire_format.Pool()  # used in the side stream only

    def close(self) -> None:
        """Do nothing: the thread and the process group are closed by those who have opened them."""

    def mean(self, group: Group, call: Call, number: int) -> Finish:
        """Ring all-reduce."""
        if not call.fresh:
            metering.mean(group, call.kind, nbytes(call.tensors))

        def exchange() -> list[Tensor]:
            tensors = [t.clone() for t in call.tensors] if call.fresh else call.tensors
            for same_type in wire_format.by_dtype(tensors):
                row = flat_share(same_type, self._pool, self._size)
                with translated_errors():
                    dist.all_reduce(row, group=self._process_group)
                write_mean(row, same_type, self._pool, self._size)
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
        metering.broadcast(group, call.kind, nbytes(call.tensors), call.partner)

        def exchange() -> list[Tensor]:
            for same_type in wire_format.by_dtype(call.tensors):
                row = self._pool.take(same_type)
                if group.rank == call.partner:
                    wire_format.fill(row, same_type)
                with translated_errors():
                    dist.broadcast(row, group_src=call.partner, group=self._process_group)
                if group.rank != call.partner:
                    torch._foreach_copy_(same_type, wire_format.parts(row, same_type))
                self._pool.give_back(row)
            return call.tensors

        return self._stream.submit(call, exchange)

    def gather(self, group: Group, call: Call, number: int) -> Finish:
        """Ring all-gather; before it, one of the sizes if the payloads are ragged.

        Ragged payloads are padded to the largest one. `torch.distributed.all_gather` takes tensors of
        different sizes, but with NCCL it is no ring then: each member broadcasts its own (NVIDIA/nccl#773).
        """

        def exchange() -> list[Payload]:
            header, body = self._packed(call.payload, call.ragged)
            headers = self._headers(header, call.ragged)
            largest = max(map(wire_format.body_bytes, headers))
            bodies = self._all_gather(functional.pad(body, (0, largest - len(body))))
            return [wire_format.unpack(header, body) for header, body in zip(headers, bodies)]

        wait = self._stream.submit(call, exchange)

        def finish() -> list[Payload]:
            payloads = wait()
            self._stream.hand_over(tensor for payload in payloads for tensor in payload.values())
            metering.gather(group, bytes_of_each(payloads, call.ragged))
            return payloads

        return finish

    def push_pull(self, group: Group, call: Call, number: int) -> Finish:
        """Push to the server's worker, and pull its answer, over a direct link to each of the others."""

        def exchange() -> tuple[dict[str, list[int]], Payload]:
            own = bytes_by_kind(call.payload, call.ragged)
            pushed = {kind: [size] * self._size for kind, size in own.items()}
            answer: Payload = {}
            pushes = self._push(call)
            if group.rank == call.partner:
                pushed = bytes_of_each(pushes, call.ragged)
                answer = call.serve(pushes)
            return pushed, self._pull(answer, call)

        wait = self._stream.submit(call, exchange)

        def finish() -> Payload:
            pushed, answer = wait()
            self._stream.hand_over(answer.values())
            metering.push(group, pushed, call.partner)
            metering.pull(group, bytes_by_kind(answer, call.ragged), call.partner)
            return answer

        return finish

    def _push(self, call: Call) -> list[Payload]:
        """Return the payloads of all members on the server's worker, and nothing on the others."""
        header, body = self._packed(call.payload, call.ragged)
        headers = self._headers(header, call.ragged)
        if self._rank != call.partner:
            self._transfer([(dist.isend, body, call.partner)])
            return []
        bodies = [self._empty(wire_format.body_bytes(header)) for header in headers]
        bodies[self._rank] = body
        self._transfer([(dist.irecv, bodies[other], other) for other in self._others()])
        return [wire_format.unpack(header, body) for header, body in zip(headers, bodies)]

    def _pull(self, answer: Payload, call: Call) -> Payload:
        """Return the answer of the server's worker on all members; its tensors are new."""
        at_server = self._rank == call.partner
        # This copies, because the server may continue to change the tensors of its answer.
        header, body = self._packed(answer, call.ragged)
        header = header.to(self._device)
        with translated_errors():
            dist.broadcast(header, group_src=call.partner, group=self._process_group)
        header = header.cpu()
        if at_server:
            self._transfer([(dist.isend, body, other) for other in self._others()])
        else:
            body = self._empty(wire_format.body_bytes(header))
            self._transfer([(dist.irecv, body, call.partner)])
        return wire_format.unpack(header, body)

    def _packed(self, payload: Payload, ragged: bool) -> tuple[Tensor, Tensor]:
        """Return the header of a payload, on the CPU, and its body on the device."""
        header, body = wire_format.pack(payload, ragged)
        return header, body.to(self._device)

    def _headers(self, own: Tensor, ragged: bool) -> list[Tensor]:
        """Return the headers of all members, on the CPU; they are equal unless the payloads are ragged."""
        if not ragged:
            return [own] * self._size
        return list(self._all_gather(own.to(self._device)).cpu())

    def _all_gather(self, row: Tensor) -> Tensor:
        """Return the rows of all members, [members, elements]; they must have equal lengths."""
        rows = row.new_empty(self._size * len(row))
        if len(row):
            with translated_errors():
                dist.all_gather_single(rows, row, group=self._process_group)
        return rows.view(self._size, len(row))

    def _transfer(self, parts: list[tuple[Callable[..., dist.Work | None], Tensor, int]]) -> None:
        """Send and receive rows at once: each part is `isend` or `irecv`, a row, and another member.

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
