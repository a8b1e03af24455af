"""Communication of workers on one host, in shared memory and without a network.

Each worker owns a segment of memory, which all members map, and a pipe from each of the others. Through the
pipes the members signal that they have reached a certain point in a call. A signal is a digest of that call,
and a number for the others. Segments and pipes have no names; the others open them through /proc. So they
need no space in any folder, and nothing is left behind, however a worker ends.
"""

import os
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar
from zlib import crc32

import torch
from torch import Tensor

from thinwire.base.errors import MethodError
from thinwire.traffic.payload import Payload, bytes_by_kind, nbytes
from thinwire.transport import flat_tensors, messages, metering
from thinwire.transport.call import Call, Finish, Group
from thinwire.transport.rendezvous import ConnectionLost
from thinwire.transport.shared_tensors import Run, Segment, SharedTensors, no_shared_memory, opened

T = TypeVar("T")

# A mean is computed in chunks of this many numbers, which pass from worker to worker. A chunk fits into the
# cache and keeps all workers busy. It is so large that signalling the next worker costs little.
_CHUNK = 2**19
# In place, a mean is computed in blocks of this many numbers, which are in the cache when they are written.
_BLOCK = 2**17
_HEADER_BYTES = 8 * messages.HEADER
_DIGEST_BYTES = _WORD_BYTES = 4


class SharedMemory:
    """One worker's end of a channel whose members share a host and have their tensors on its CPU."""

    def __init__(
        self,
        rank: int,
        size: int,
        exchange: Callable[[list[int]], list[list[int]]],
        shared: SharedTensors,
        in_order: Executor,
    ) -> None:
        """Open the segments and pipes of all members.

        Args:
            rank: of this member.
            size: number of members.
            exchange: gathers equally many numbers from every member, and returns them by rank.
            shared: this member's tensors that the others may change during a call.
            in_order: one thread, so that calls are carried out in order.

        Raises:
            ConnectionLost: another member has ended.
            ResourceError: there is not enough memory, or too many files are open.
        """
        self._rank, self._size = rank, size
        self._others = [other for other in range(size) if other != rank]
        self._shared, self._in_order = shared, in_order
        self._own = own = Segment.new()
        try:
            pipes = {other: os.pipe() for other in self._others}
        except OSError as error:
            raise no_shared_memory(error) from None
        writing = [pipes[other][1] if other in pipes else 0 for other in range(size)]
        given = exchange([os.getpid(), own.file, self._shared.segment.file, *writing])
        self._segments = [own if m == rank else Segment.of(*given[m][:2]) for m in range(size)]
        self._regions = [
            shared.segment if m == rank else Segment.of(given[m][0], given[m][2]) for m in range(size)
        ]
        self._out = {
            other: opened(given[other][0], given[other][3 + rank], os.O_WRONLY) for other in self._others
        }
        self._in = {other: reading for other, (reading, _) in pipes.items()}
        exchange([0] * (3 + size))
        # Now only the other member can write to the pipe. So the pipe ends when that member ends.
        for _, own_end in pipes.values():
            os.close(own_end)
        self._begin("")

    def close(self) -> None:
        for pipe in (*self._out.values(), *self._in.values()):
            os.close(pipe)
        for segment in self._segments:
            segment.close()
        for member in self._others:
            self._regions[member].close()

    def mean(self, group: Group, call: Call, number: int) -> Finish:
        tensors = [torch.empty_like(t) for t in call.tensors] if call.fresh else call.tensors

        def exchange() -> list[Tensor]:
            by_type = flat_tensors.by_dtype(call.tensors), flat_tensors.by_dtype(tensors)
            for given, results in zip(*by_type):
                self._mean(given, into=results)
            return tensors

        return self._submit(group, call, number, exchange)

    def broadcast(self, group: Group, call: Call, number: int) -> Finish:
        def exchange() -> list[Tensor]:
            for same_type in flat_tensors.by_dtype(call.tensors):
                self._broadcast(same_type, call.partner)
            return call.tensors

        return self._submit(group, call, number, exchange)

    def gather(self, group: Group, call: Call, number: int) -> Finish:
        def exchange() -> list[Payload]:
            self._write(call.payload, call.ragged)
            self._barrier()
            payloads = [self._read(member) for member in range(self._size)]
            self._barrier()
            return payloads

        wait = self._submit(group, call, number, exchange)

        def finish() -> list[Payload]:
            payloads = wait()
            metering.gather(group, metering.bytes_of_each(payloads, call.ragged))
            return payloads

        return finish

    def push_pull(self, group: Group, call: Call, number: int) -> Finish:
        wait = self._submit(group, call, number, lambda: self._push_pull(call))

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
            self._begin(description)
            return exchange()

        return self._in_order.submit(metering.timed(call, carry_out)).result

    def _begin(self, call: str) -> None:
        """Set the description of the next call; it must be equal on all members."""
        self._call = call
        self._digest = crc32(call.encode()).to_bytes(_DIGEST_BYTES)

    def _mean(self, tensors: list[Tensor], into: list[Tensor]) -> None:
        """Write the mean of tensors of one type into `into`, which may be the same tensors.

        Each member first tells the others, by a digest, where in its shared memory the tensors lie. If all
        have them at the same places, nothing is copied: see `_reduce_in_place`. Otherwise the members add one
        after the other: see `_reduce_in_turn`.
        """
        if self._shared.used:
            replaced = all(tensor is result for tensor, result in zip(tensors, into))
            runs = self._shared.runs_of(tensors) if replaced else []
            word = crc32(repr(runs).encode()) if runs else 0
            if set(self._meet(word)) == {word} and runs:
                self._reduce_in_place(runs, tensors[0].dtype)
                return
        self._reduce_in_turn(tensors, into)

    def _reduce_in_place(self, runs: list[Run], dtype: torch.dtype) -> None:
        """Replace the numbers of all members in these places of the shared memory by their mean.

        Each member does so for its share of the numbers. It reads the share of every member, and writes it.
        They are added in the order of the ranks, as in one process.
        """
        for run in runs:
            share = slice(
                run.numbers * self._rank // self._size, run.numbers * (self._rank + 1) // self._size
            )
            members = [region.view(dtype, run.numbers, run.start)[share] for region in self._regions]
            for total, *others in zip(*(member.split(_BLOCK) for member in members)):
                flat_tensors.divide_before_sum([total, *others], self._size)
                for other in others:
                    total += other
                flat_tensors.divide_after_sum([total], self._size)
                for other in others:
                    other.copy_(total)
        self._barrier()

    def _reduce_in_turn(self, tensors: list[Tensor], into: list[Tensor]) -> None:
        """Write the mean of tensors that lie anywhere.

        There is one sum for all members, in the segment of rank 0. It is computed chunk by chunk. The members
        add their parts to a chunk in the order of the ranks, while it is in the cache. Then all copy it.
        """
        dtype, count = tensors[0].dtype, sum(tensor.numel() for tensor in tensors)
        total = self._segments[0]
        if self._rank == 0:
            total.reserve(count * dtype.itemsize)
        end = 0
        for chunk in flat_tensors.in_chunks(tensors, _CHUNK):
            start, end = end, end + sum(map(len, chunk))
            if self._rank > 0:
                self._await(self._rank - 1)
            self._add(total.view(dtype, end)[start:], chunk)
            if self._rank + 1 < self._size:
                self._signal(self._rank + 1)
        self._barrier()
        torch._foreach_copy_(into, flat_tensors.parts(total.view(dtype, count), into))
        self._barrier()

    def _add(self, total: Tensor, chunk: list[Tensor]) -> None:
        """Add this worker's part of a chunk to `total`: rank 0 initialises it, the last makes it the mean."""
        parts = flat_tensors.parts(total, chunk)
        given = flat_tensors.shares(chunk, self._size)
        if self._rank == 0:
            torch._foreach_copy_(parts, given)
        else:
            torch._foreach_add_(parts, given)
        if self._rank == self._size - 1:
            flat_tensors.divide_after_sum([total], self._size)

    def _broadcast(self, tensors: list[Tensor], source: int) -> None:
        """Write the tensors of the member `source`, which are of one type, into everybody's."""
        dtype, count = tensors[0].dtype, sum(tensor.numel() for tensor in tensors)
        if self._rank == source:
            self._own.reserve(count * dtype.itemsize)
            flat_tensors.fill(self._own.view(dtype, count), tensors)
        self._barrier()
        if self._rank != source:
            held = self._segments[source].view(dtype, count)
            torch._foreach_copy_(tensors, flat_tensors.parts(held, tensors))
        self._barrier()

    def _push_pull(self, call: Call) -> tuple[dict[str, list[int]], Payload]:
        """Return the bytes of all pushes, by kind, and the server's answer."""
        here = self._rank == call.partner
        self._write(call.payload, call.ragged)
        self._barrier()
        pushes = [self._read(member, copy=here) for member in range(self._size)]
        sizes = metering.bytes_of_each(pushes, call.ragged)
        answer = call.serve(pushes) if here else {}
        self._barrier()
        if here:
            self._write(answer, call.ragged)
        self._barrier()
        answer = self._read(call.partner)
        self._barrier()
        return sizes, answer

    def _write(self, payload: Payload, ragged: bool) -> None:
        header, body = messages.pack(payload, ragged)
        self._own.reserve(_HEADER_BYTES + len(body))
        self._own.view(torch.int64, messages.HEADER).copy_(header)
        self._own.view(torch.uint8, _HEADER_BYTES + len(body))[_HEADER_BYTES:].copy_(body)

    def _read(self, member: int, copy: bool = True) -> Payload:
        segment = self._segments[member]
        header = segment.view(torch.int64, messages.HEADER).clone()
        end = _HEADER_BYTES + messages.body_bytes(header)
        body = segment.view(torch.uint8, end)[_HEADER_BYTES:]
        return messages.unpack(header, body.clone() if copy else body)

    def _barrier(self) -> None:
        """Wait until all members have reached this point."""
        self._meet(0)

    def _meet(self, word: int) -> list[int]:
        """Wait until all members have reached this point; return the words of all, in any order."""
        for other in self._others:
            self._signal(other, word)
        return [word, *map(self._await, self._others)]

    def _signal(self, member: int, word: int = 0) -> None:
        """Signal to a member, with a number of 32 bits for it, that this worker has reached this point."""
        try:
            os.write(self._out[member], self._digest + word.to_bytes(_WORD_BYTES))
        except BrokenPipeError:
            raise ConnectionLost(f"member {member} of this node has ended") from None

    def _await(self, member: int) -> int:
        """Wait for the signal of a member that carries out the same call, and return its word."""
        signal = os.read(self._in[member], _DIGEST_BYTES + _WORD_BYTES)
        if not signal:
            raise ConnectionLost(f"member {member} of this node has ended")
        if signal[:_DIGEST_BYTES] != self._digest:
            raise MethodError(
                f"the workers do not agree: rank {self._rank} is at {self._call}, and rank {member} is at "
                "another call"
            )
        return int.from_bytes(signal[_DIGEST_BYTES:])
