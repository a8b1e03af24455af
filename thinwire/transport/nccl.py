"""Collectives and messages between GPUs.

All verbs use the process group of the GPUs, so all methods use one network, whatever verbs they call. A
separate thread issues the calls of all channels, one after the other. The reason is that torch requires one
order on all ranks if there are several groups with NCCL: see `torch.distributed.new_group`.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional

from thinwire.base.placement import on_gpu
from thinwire.traffic.payload import Payload, bytes_by_kind, nbytes
from thinwire.transport import metering, wire_format
from thinwire.transport.call import Call, Finish, Group, Outcomes, Together
from thinwire.transport.links import Links
from thinwire.transport.mean import PartMean, divide_after_sum, divide_before_sum, flat_share, write_mean
from thinwire.transport.metering import bytes_of_each, bytes_of_equal
from thinwire.transport.rendezvous import translated_errors

T = TypeVar("T")
# Before torch 2.13 it had another name.
_reduce_scatter_single = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


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

    def submit(self, call: Call, exchange: Callable[[], T], further: Sequence[Call] = ()) -> Callable[[], T]:
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
        timed = carry_out
        for one in (call, *further) if self._device.type == "cpu" else ():
            timed = metering.timed(one, timed)
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
        self._links = Links(group, device)
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
            own, (body,) = self._links.packed([call.payload], call.ragged)
            headers = self._links.headers(own, call.ragged)[:, 0]
            largest = max(map(wire_format.body_bytes, headers))
            bodies = self._links.all_gather(functional.pad(body, (0, largest - len(body))))
            return [wire_format.unpack(header, body) for header, body in zip(headers, bodies)]

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
        exchange = self._reduce_scatter if together.reduces else self._links.through_servers
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
            divide_before_sum([row], self._size)
            with translated_errors():
                _reduce_scatter_single(mean, row, group=self._process_group)
            self._pool.give_back(row)
            divide_after_sum([mean], self._size)
        _part_mean(calls[self._rank]).mean = mean[: len(parts[self._rank])]
        return [(bytes_of_equal(call, self._size), {}) for call in calls]


def _part_mean(call: Call) -> PartMean:
    assert isinstance(call.server, PartMean)
    return call.server
