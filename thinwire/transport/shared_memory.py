"""The workers of one host meet in shared memory: what passes between them costs no network.

Each has a segment, which all map, and a pipe from each of the others. Into that pipe the other writes, with a
digest of its call, how far it has come. Neither has a name: the others open both through /proc. So no folder
has to have room for them, and nothing is left behind however a worker ends.
"""

import mmap
import os
from collections.abc import Callable
from zlib import crc32

import torch
from torch import Tensor

from thinwire.errors import MethodError, ResourceError
from thinwire.traffic.payload import Payload
from thinwire.transport import flatten, message
from thinwire.transport.agreement import agreed
from thinwire.transport.connection_errors import ConnectionLost

# Segments grow in steps of this many bytes.
_STEP = 2**20
# Numbers of a mean that a worker adds before it lets the next one add its own to them: few enough to stay in
# a cache, and to keep all workers busy; so many that telling the next one costs little beside them.
_LOT = 2**19
_HEADER_BYTES = 8 * message.HEADER
_DIGEST_BYTES = 4


class SharedMemory:
    """One worker's end. Its verbs are called by all members in the same order, one at a time."""

    def __init__(self, rank: int, size: int, exchange: Callable[[list[int]], list[list[int]]]) -> None:
        """Open the segments and pipes of all members.

        Args:
            rank: of this member.
            size: number of members.
            exchange: takes as many numbers from every member, and gives those of all, by rank.

        Raises:
            ConnectionLost: another member has ended.
            ResourceError: there is no memory, or no room for more open files.
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
        # Now the other is the only one that can write, so that its end is the end of the pipe.
        for _, own_end in pipes.values():
            os.close(own_end)
        self.begin("")

    def begin(self, words: str) -> None:
        """Say which call the next verb carries out; the members must agree in every word."""
        self._words = words
        self._digest = crc32(words.encode()).to_bytes(_DIGEST_BYTES)

    def close(self) -> None:
        """Give segments and pipes back."""
        for pipe in (*self._out.values(), *self._in.values()):
            os.close(pipe)
        for segment in self._segments:
            segment.close()

    def mean(self, tensors: list[Tensor], into: list[Tensor]) -> None:
        """Write the mean over the members of tensors of one type into others of the same shapes.

        One sum for all lies in the segment of rank 0. Lot by lot, in the order of the ranks, each adds its
        own to what the one before it has left in the cache; from there all take the mean.
        """
        dtype, count = tensors[0].dtype, sum(tensor.numel() for tensor in tensors)
        row = self._segments[0]
        if self._rank == 0:
            row.reserve(count * dtype.itemsize)
        end = 0
        for lot in flatten.in_lots(tensors, _LOT):
            start, end = end, end + sum(map(len, lot))
            if self._rank > 0:
                self._hear(self._rank - 1)
            self._add(row.view(dtype, end)[start:], lot)
            if self._rank + 1 < self._size:
                self._tell(self._rank + 1)
        self._meet()
        torch._foreach_copy_(into, flatten.parts(row.view(dtype, count), into))
        self._meet()

    def _add(self, total: Tensor, lot: list[Tensor]) -> None:
        """Add this worker's part; the first begins, and the last divides.

        In 16 bits each is divided before it is added: a sum may overflow where the mean does not.
        """
        parts = flatten.parts(total, lot)
        divide_first = total.element_size() == 2
        given = list(torch._foreach_div(lot, self._size)) if divide_first else lot
        if self._rank == 0:
            torch._foreach_copy_(parts, given)
        else:
            torch._foreach_add_(parts, given)
        if self._rank == self._size - 1 and not divide_first:
            total /= self._size

    def gather(self, payload: Payload, ragged: bool) -> list[Payload]:
        """Everybody's payload, in the order of the ranks."""
        self._write(payload, ragged)
        self._meet()
        payloads = [self._read(member) for member in range(self._size)]
        self._meet()
        return payloads

    def broadcast(self, tensors: list[Tensor], source: int) -> None:
        """Write the source's tensors, of one type, into everybody's."""
        dtype, count = tensors[0].dtype, sum(tensor.numel() for tensor in tensors)
        if self._rank == source:
            self._own.reserve(count * dtype.itemsize)
            flatten.fill(self._own.view(dtype, count), tensors)
        self._meet()
        if self._rank != source:
            torch._foreach_copy_(tensors, flatten.parts(self._segments[source].view(dtype, count), tensors))
        self._meet()

    def push_pull(
        self, payload: Payload, ragged: bool, server: int, update: Callable[[list[Payload]], Payload]
    ) -> tuple[dict[str, list[int]], Payload]:
        """What each has pushed, in bytes by kind, and the answer of the server on the member `server`."""
        self._write(payload, ragged)
        self._meet()
        pushes = [self._read(member, copy=self._rank == server) for member in range(self._size)]
        sizes = agreed(pushes, ragged)
        answer = update(pushes) if self._rank == server else {}
        self._meet()
        if self._rank == server:
            self._write(answer, ragged)
        self._meet()
        answer = self._read(server)
        self._meet()
        return sizes, answer

    @property
    def _own(self) -> "_Segment":
        return self._segments[self._rank]

    def _write(self, payload: Payload, ragged: bool) -> None:
        header, body = message.pack(payload, ragged)
        self._own.reserve(_HEADER_BYTES + len(body))
        self._own.view(torch.int64, message.HEADER).copy_(header)
        self._own.view(torch.uint8, _HEADER_BYTES + len(body))[_HEADER_BYTES:].copy_(body)

    def _read(self, member: int, copy: bool = True) -> Payload:
        segment = self._segments[member]
        header = segment.view(torch.int64, message.HEADER).clone()
        end = _HEADER_BYTES + message.body_bytes(header)
        body = segment.view(torch.uint8, end)[_HEADER_BYTES:]
        return message.unpack(header, body.clone() if copy else body)

    def _meet(self) -> None:
        """Return when all members have come here."""
        for other in self._others:
            self._tell(other)
        for other in self._others:
            self._hear(other)

    def _tell(self, member: int) -> None:
        """Say that this worker has come here.

        Raises:
            ConnectionLost: the member has ended.
        """
        try:
            os.write(self._out[member], self._digest)
        except BrokenPipeError:
            raise _ended(member) from None

    def _hear(self, member: int) -> None:
        """Return when a member says so too.

        Raises:
            ConnectionLost: the member has ended.
            MethodError: it has come there with another call.
        """
        heard = os.read(self._in[member], _DIGEST_BYTES)
        if not heard:
            raise _ended(member)
        if heard != self._digest:
            raise MethodError(
                f"the workers do not agree: rank {self._rank} has come to {self._words}, and rank "
                f"{member} to another"
            )


def _opened(process: int, number: int, how: int) -> int:
    """A file that another process of this host has open, opened here."""
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
    """A file in memory that grows, mapped."""

    def __init__(self, file: int) -> None:
        self.file = file
        self._bytes = torch.empty(0, dtype=torch.uint8)

    def reserve(self, size: int) -> None:
        """Make room for `size` bytes.

        Raises:
            ResourceError: there is none.
        """
        # Reserved now, because a page that is missing later would kill the process.
        if size > os.fstat(self.file).st_size:
            try:
                os.posix_fallocate(self.file, 0, size + -size % _STEP)
            except OSError as error:
                raise ResourceError(
                    f"{size / 1e6:.0f} MB of shared memory cannot be had ({error.strerror}): free memory, or "
                    "raise the limit of this job"
                ) from None

    def view(self, dtype: torch.dtype, count: int) -> Tensor:
        """The first `count` numbers of a type."""
        size = count * dtype.itemsize
        if size > len(self._bytes):
            mapped = mmap.mmap(self.file, os.fstat(self.file).st_size)
            self._bytes = torch.frombuffer(mapped, dtype=torch.uint8)
        return self._bytes[:size].view(dtype)

    def close(self) -> None:
        os.close(self.file)
