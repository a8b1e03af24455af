"""Tensors of one worker that the other workers of its host can read and write during a call."""

import mmap
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from thinwire.transport.segment import Segment


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
        """Open the memory, which is empty.

        Raises:
            ResourceError: there is not enough memory, or too many files are open.
        """
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
        """Release the memory; tensors that are still there keep it."""
        self.segment.close()
