"""Tensors in shared memory of the processes of one node."""

import mmap
import os
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from thinwire.base.errors import ResourceError, shortage
from thinwire.transport.rendezvous import ConnectionLost

# Segments grow in steps of this many bytes.
_STEP = 2**20


class Segment:
    """A file in memory, mapped, which can grow."""

    def __init__(self, file: int) -> None:
        self.file = file
        self._bytes = torch.empty(0, dtype=torch.uint8)

    @classmethod
    def new(cls) -> "Segment":
        """Return an empty segment of this process. Others open it through /proc.

        Raises:
            ResourceError: there is not enough memory, or too many files are open.
        """
        try:
            return cls(os.memfd_create("thinwire"))
        except OSError as error:
            raise no_shared_memory(error) from None

    @classmethod
    def of(cls, process: int, number: int) -> "Segment":
        """Return the segment that another process of this host has open; see `opened`."""
        return cls(opened(process, number, os.O_RDWR))

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

    def view(self, dtype: torch.dtype, count: int, start: int = 0) -> Tensor:
        """Return `count` numbers of a type, from the byte `start` on."""
        end = start + count * dtype.itemsize
        if end > len(self._bytes):
            mapped = mmap.mmap(self.file, os.fstat(self.file).st_size)
            self._bytes = torch.frombuffer(mapped, dtype=torch.uint8)
        return self._bytes[start:end].view(dtype)

    def close(self) -> None:
        os.close(self.file)


def no_shared_memory(error: OSError) -> ResourceError:
    """What to raise where the system gives no memory or no pipe."""
    return ResourceError(f"no memory can be shared by the workers of this node ({error.strerror})")


def opened(process: int, number: int, how: int) -> int:
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
        raise shortage(error) or ResourceError(
            f"the memory of process {process} cannot be opened ({error.strerror}): the workers of a node run "
            "as one user, in one container"
        ) from None


class Run(NamedTuple):
    """Numbers that follow each other in the shared memory."""

    start: int  # byte of the first one
    numbers: int


class _Mapping(NamedTuple):
    """A part of the shared memory in this process."""

    address: int  # in this process
    start: int  # byte in the shared memory
    end: int


class SharedTensors:
    """The shared memory of a worker. All channels whose members share the host know it."""

    def __init__(self) -> None:
        """Open the memory, which is empty; a ResourceError says what is missing."""
        self.segment = Segment.new()
        self._mappings: list[_Mapping] = []

    @property
    def used(self) -> bool:
        """Has this worker tensors there? All workers of a node have some, or none has."""
        return bool(self._mappings)

    def like(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return contiguous tensors with these shapes and types, one after the other.

        Each has a storage of its own, so that torch knows who refers to it.

        Raises:
            ResourceError: there is not enough memory.
        """
        begin = self._mappings[-1].end if self._mappings else 0
        starts, end = [], 0
        for tensor in tensors:
            end += -end % tensor.element_size()
            starts.append(end)
            end += tensor.numel() * tensor.element_size()
        end += -end % mmap.ALLOCATIONGRANULARITY
        self.segment.reserve(begin + end)
        mapped = mmap.mmap(self.segment.file, end, offset=begin)
        address = torch.frombuffer(mapped, dtype=torch.uint8).data_ptr()
        self._mappings.append(_Mapping(address, begin, begin + end))
        return [
            torch.frombuffer(mapped, dtype=like.dtype, count=like.numel(), offset=start).view(like.shape)
            for like, start in zip(tensors, starts)
        ]

    def runs_of(self, tensors: Sequence[Tensor]) -> list[Run]:
        """Where these tensors lie, those that follow each other as one; empty if not all lie here."""
        runs: list[Run] = []
        for tensor in tensors:
            start, size = self._start_of(tensor), tensor.element_size()
            if start is None:
                return []
            if runs and runs[-1].start + runs[-1].numbers * size == start:
                runs[-1] = Run(runs[-1].start, runs[-1].numbers + tensor.numel())
            else:
                runs.append(Run(start, tensor.numel()))
        return runs

    def _start_of(self, tensor: Tensor) -> int | None:
        """The byte at which a tensor begins; None if it does not lie here, or its numbers lie apart."""
        if tensor.is_contiguous():
            for mapping in self._mappings:
                start = tensor.data_ptr() - mapping.address + mapping.start
                if mapping.start <= start < mapping.end:
                    return start
        return None

    def close(self) -> None:
        """Close the file; tensors that are still there keep its memory."""
        self.segment.close()
