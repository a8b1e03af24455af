"""Communication of workers on one host, in shared memory and without a network.

Each worker owns a segment of memory, which all members map, and a pipe from each of the others. Through the
pipes the members signal that they have reached a certain point in a call. A signal is a digest of that call.
Segments and pipes have no names; the others open them through /proc. So they need no space in any folder, and
nothing is left behind, however a worker ends.
"""

import mmap
import os
from collections.abc import Callable
from zlib import crc32

import torch
from torch import Tensor

from thinwire.errors import MethodError, ResourceError
from thinwire.traffic.payload import Payload
from thinwire.transport import flatten, payload_format
from thinwire.transport.agreement import agreed
from thinwire.transport.connection_errors import ConnectionLost

# Segments grow in steps of this many bytes.
_STEP = 2**20
# A mean is computed in chunks of this many numbers, which pass from worker to worker. A chunk fits into the
# cache and keeps all workers busy. It is so large that signalling the next worker costs little.
_CHUNK = 2**19
_HEADER_BYTES = 8 * payload_format.HEADER
_DIGEST_BYTES = 4


class SharedMemory:
    """One worker's end. All members call the same verbs in the same order, one at a time."""

    def __init__(self, rank: int, size: int, exchange: Callable[[list[int]], list[list[int]]]) -> None:
        """Open the segments and pipes of all members.

        Args:
            rank: of this member.
            size: number of members.
            exchange: gathers equally many numbers from every member, and returns them by rank.

        Raises:
            ConnectionLost: another member has ended.
            ResourceError: there is not enough memory, or too many files are open.
        """
        self._rank, self._size = rank, size
        self._others = [other for other in range(size) if other != rank]
        try:
            own = _Segment(os.memfd_create("thinwire"))
            pipes = {other: os.pipe() for other in self._others}
        except OSError as error:
            raise ResourceError(
                f"no memory can be shared by the workers of this node ({error.strerror})"
            ) from None
        writing = [pipes[other][1] if other in pipes else 0 for other in range(size)]
        given = exchange([os.getpid(), own.file, *writing])
        self._segments = [
            own if other == rank else _Segment(_opened(given[other][0], given[other][1], os.O_RDWR))
            for other in range(size)
        ]
        self._out = {
            other: _opened(given[other][0], given[other][2 + rank], os.O_WRONLY) for other in self._others
        }
        self._in = {other: reading for other, (reading, _) in pipes.items()}
        exchange([0] * (2 + size))
        # Now only the other member can write to the pipe. So the pipe ends when that member ends.
        for _, own_end in pipes.values():
            os.close(own_end)
        self.begin("")

    def begin(self, call: str) -> None:
        """Set the description of the call that the next verb carries out; it must be equal on all members."""
        self._call = call
        self._digest = crc32(call.encode()).to_bytes(_DIGEST_BYTES)

    def close(self) -> None:
        """Release segments and pipes."""
        for pipe in (*self._out.values(), *self._in.values()):
            os.close(pipe)
        for segment in self._segments:
            segment.close()

    def mean(self, tensors: list[Tensor], into: list[Tensor]) -> None:
        """Write the mean over the members into `into`.

        There is one sum for all members, in the segment of rank 0. It is computed chunk by chunk. The members
        add their parts to a chunk in the order of the ranks, while it is in the cache. Then all copy it.

        Args:
            tensors: of one type.
            into: of the same type and shapes.
        """
        dtype, count = tensors[0].dtype, sum(tensor.numel() for tensor in tensors)
        shared = self._segments[0]
        if self._rank == 0:
            shared.reserve(count * dtype.itemsize)
        end = 0
        for chunk in flatten.in_chunks(tensors, _CHUNK):
            start, end = end, end + sum(map(len, chunk))
            if self._rank > 0:
                self._await(self._rank - 1)
            self._add(shared.view(dtype, end)[start:], chunk)
            if self._rank + 1 < self._size:
                self._signal(self._rank + 1)
        self._barrier()
        torch._foreach_copy_(into, flatten.parts(shared.view(dtype, count), into))
        self._barrier()

    def _add(self, total: Tensor, chunk: list[Tensor]) -> None:
        """Add this worker's part of a chunk to `total`; rank 0 initialises it, and the last rank divides it.

        16-bit numbers are divided before they are added, because a sum may overflow where the mean does not.
        """
        parts = flatten.parts(total, chunk)
        divide_first = total.element_size() == 2
        given = list(torch._foreach_div(chunk, self._size)) if divide_first else chunk
        if self._rank == 0:
            torch._foreach_copy_(parts, given)
        else:
            torch._foreach_add_(parts, given)
        if self._rank == self._size - 1 and not divide_first:
            total /= self._size

    def gather(self, payload: Payload, ragged: bool) -> list[Payload]:
        """Return everybody's payload, in the order of the ranks."""
        self._write(payload, ragged)
        self._barrier()
        payloads = [self._read(member) for member in range(self._size)]
        self._barrier()
        return payloads

    def broadcast(self, tensors: list[Tensor], source: int) -> None:
        """Write the tensors of the member `source`, which are of one type, into everybody's."""
        dtype, count = tensors[0].dtype, sum(tensor.numel() for tensor in tensors)
        if self._rank == source:
            self._own.reserve(count * dtype.itemsize)
            flatten.fill(self._own.view(dtype, count), tensors)
        self._barrier()
        if self._rank != source:
            torch._foreach_copy_(tensors, flatten.parts(self._segments[source].view(dtype, count), tensors))
        self._barrier()

    def push_pull(
        self, payload: Payload, ragged: bool, server: int, update: Callable[[list[Payload]], Payload]
    ) -> tuple[dict[str, list[int]], Payload]:
        """Push to the server on member `server`; return the bytes of all pushes, by kind, and its answer."""
        self._write(payload, ragged)
        self._barrier()
        pushes = [self._read(member, copy=self._rank == server) for member in range(self._size)]
        sizes = agreed(pushes, ragged)
        answer = update(pushes) if self._rank == server else {}
        self._barrier()
        if self._rank == server:
            self._write(answer, ragged)
        self._barrier()
        answer = self._read(server)
        self._barrier()
        return sizes, answer

    @property
    def _own(self) -> "_Segment":
        return self._segments[self._rank]

    def _write(self, payload: Payload, ragged: bool) -> None:
        header, body = payload_format.pack(payload, ragged)
        self._own.reserve(_HEADER_BYTES + len(body))
        self._own.view(torch.int64, payload_format.HEADER).copy_(header)
        self._own.view(torch.uint8, _HEADER_BYTES + len(body))[_HEADER_BYTES:].copy_(body)

    def _read(self, member: int, copy: bool = True) -> Payload:
        segment = self._segments[member]
        header = segment.view(torch.int64, payload_format.HEADER).clone()
        end = _HEADER_BYTES + payload_format.body_bytes(header)
        body = segment.view(torch.uint8, end)[_HEADER_BYTES:]
        return payload_format.unpack(header, body.clone() if copy else body)

    def _barrier(self) -> None:
        """Wait until all members have reached this point."""
        for other in self._others:
            self._signal(other)
        for other in self._others:
            self._await(other)

    def _signal(self, member: int) -> None:
        """Signal to a member that this worker has reached this point.

        Raises:
            ConnectionLost: the member has ended.
        """
        try:
            os.write(self._out[member], self._digest)
        except BrokenPipeError:
            raise _ended(member) from None

    def _await(self, member: int) -> None:
        """Wait for the signal of a member.

        Raises:
            ConnectionLost: the member has ended.
            MethodError: the member carries out another call.
        """
        digest = os.read(self._in[member], _DIGEST_BYTES)
        if not digest:
            raise _ended(member)
        if digest != self._digest:
            raise MethodError(
                f"the workers do not agree: rank {self._rank} is at {self._call}, and rank {member} is at "
                "another call"
            )


def _opened(process: int, number: int, how: int) -> int:
    """Open a file that another process of this host has open.

    Raises:
        ConnectionLost: that process has ended.
        ResourceError: the system refuses.
    """
    try:
        return os.open(f"/proc/{process}/fd/{number}", how)
    except (FileNotFoundError, ProcessLookupError):
        raise ConnectionLost(
            f"process {process} is not there: it has ended, or it runs in a PID namespace of its own"
        ) from None
    except OSError as error:
        raise ResourceError(
            f"the memory of process {process} cannot be opened ({error.strerror}): the workers of a node run "
            "as one user, in one container"
        ) from None


def _ended(member: int) -> ConnectionLost:
    return ConnectionLost(f"member {member} of this node has ended")


class _Segment:
    """A file in memory, mapped, which can grow."""

    def __init__(self, file: int) -> None:
        self.file = file
        self._bytes = torch.empty(0, dtype=torch.uint8)

    def reserve(self, size: int) -> None:
        """Grow to at least `size` bytes.

        Raises:
            ResourceError: there is not enough memory.
        """
        # Allocated now, because a page that is missing at its first use would kill the process.
        if size > os.fstat(self.file).st_size:
            try:
                os.posix_fallocate(self.file, 0, size + -size % _STEP)
            except OSError as error:
                raise ResourceError(
                    f"{size / 1e6:.0f} MB of shared memory cannot be had ({error.strerror}): free memory, or "
                    "raise the limit of this job"
                ) from None

    def view(self, dtype: torch.dtype, count: int) -> Tensor:
        """Return the first `count` numbers of a type."""
        size = count * dtype.itemsize
        if size > len(self._bytes):
            mapped = mmap.mmap(self.file, os.fstat(self.file).st_size)
            self._bytes = torch.frombuffer(mapped, dtype=torch.uint8)
        return self._bytes[:size].view(dtype)

    def close(self) -> None:
        os.close(self.file)
