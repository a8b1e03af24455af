"""In which order the training inputs are read, and the readers of the file that holds them.

Shuffled is the default: one permutation for each epoch. Several readers share a file of records in one of
two ways: contiguous and strided.

Contiguous is HSGD's parallel input (Wang et al., 2020; reconstructed). Reader i owns one range of the file
and reads it in chunks, in an order drawn for each epoch. It shuffles a few chunks at a time in a buffer. The
ranges rotate by epoch, so that every reader has each of them in turn. Strided is the way of earlier parallel
readers (NVIDIA's Caffe): of every `readers` batches, each reader takes one and skips the others.

In each epoch, every record is read exactly once, by one of the readers.
"""

import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from thinwire.base import seeds

# How many chunks a reader shuffles together, and the most records in a chunk.
CHUNKS_AT_ONCE, MOST_OF_A_CHUNK = 8, 512


def shuffled(records: int, seed: int) -> Tensor:
    """The order of an epoch for all workers together: one permutation, with the seed of the epoch."""
    return torch.randperm(records, generator=torch.Generator().manual_seed(seed))


def chunk_size(records: int, readers: int) -> int:
    """Number of records in a chunk, chosen so that a reader's range has several chunks."""
    return max(1, min(MOST_OF_A_CHUNK, records // (readers * CHUNKS_AT_ONCE)))


class Load(NamedTuple):
    """What a reader holds at one time: ranges of the file, and the order in which their records are used."""

    ranges: list[tuple[int, int]]  # of record numbers: the first, and the last plus one
    order: np.ndarray  # record numbers


def contiguous(
    records: int, readers: int, reader: int, epoch: int, seed: int, chunk: int, chunks_at_once: int
) -> Iterator[Load]:
    """The loads of one of the readers, which share so many records, in one epoch.

    `chunk` records are read in one go, and `chunks_at_once` chunks are shuffled together.
    """
    own = (reader + epoch) % readers
    first, end = own * records // readers, (own + 1) * records // readers
    drawn = np.random.default_rng(seeds.derive(seed, "readers", own, epoch))
    chunks = [(start, min(start + chunk, end)) for start in range(first, end, chunk)]
    shuffled = [chunks[i] for i in drawn.permutation(len(chunks))]
    for i in range(0, len(shuffled), chunks_at_once):
        ranges = shuffled[i : i + chunks_at_once]
        order = np.concatenate([np.arange(*own_range) for own_range in ranges])
        yield Load(ranges, drawn.permutation(order))


def strided(records: int, readers: int, reader: int, batch: int) -> Iterator[Load]:
    """The loads of one reader in any epoch: every `readers`-th batch."""
    for start in range(reader * batch, records, readers * batch):
        end = min(start + batch, records)
        yield Load([(start, end)], np.arange(start, end))


class RecordFile:
    """A file of records (`.npy`) that counts its reads: how many, their bytes, and their seeks."""

    def __init__(self, path: Path) -> None:
        shape = np.load(path, mmap_mode="r", allow_pickle=False)
        if not shape.flags.c_contiguous:
            raise ValueError(f"{path} is in Fortran order: its records are not contiguous")
        self.records = len(shape)
        self.requests = 0  # ranges that were read
        self.bytes_read = 0
        self.seeks = 0  # reads that do not begin where the last one ended
        self._shape, self._dtype = shape.shape[1:], shape.dtype
        self._record_bytes = shape[:1].nbytes
        self._offset = path.stat().st_size - shape.nbytes
        self._file = path.open("rb", buffering=0)
        self._position = -1

    def close(self) -> None:
        self._file.close()

    def read(self, load: Load) -> np.ndarray:
        """The records of a load, in the order in which they are used."""
        count = sum(end - start for start, end in load.ranges)
        records = np.empty((count, *self._shape), self._dtype)
        numbers, place = np.empty(count, np.int64), 0
        for start, end in load.ranges:
            if start != self._position:
                self._file.seek(self._offset + start * self._record_bytes)
                self.seeks += 1
            part = records[place : place + end - start].data.cast("B")
            self.requests += 1
            self.bytes_read += self._fill(part)
            numbers[place : place + end - start] = np.arange(start, end)
            place += end - start
            self._position = end
        if len(load.ranges) == 1 and np.array_equal(numbers, load.order):
            return records
        sorter = np.argsort(numbers)
        return records[sorter[np.searchsorted(numbers, load.order, sorter=sorter)]]

    def _fill(self, buffer: memoryview) -> int:
        done = 0
        while done < len(buffer):
            got = self._file.readinto(buffer[done:])
            if not got:
                raise EOFError(f"{self._file.name} ends within a record")
            done += got
        return done


class Reader:
    """Reads a load when its first record is needed, and keeps it until the next one."""

    def __init__(self, path: Path, loads_of: Callable[[int], Iterator[Load]]) -> None:
        """Open the file of the records, uint8 [N, ...]; `loads_of` gives the loads of an epoch."""
        self.file = RecordFile(path)
        weakref.finalize(self, self.file.close)
        self._loads_of = loads_of
        self._epoch = self._held = -1
        self._loads: list[Load] = []
        self._ends: list[int] = []  # of each load, the number of records up to its end
        self._held_records = np.empty(0)

    def records(self, epoch: int, first: int, end: int) -> Tensor:
        """The records from `first` to before `end` in the order of an epoch: uint8 [end - first, ...]."""
        if epoch != self._epoch:
            self._loads, self._epoch, self._held = list(self._loads_of(epoch)), epoch, -1
            self._ends = list(accumulate(len(load.order) for load in self._loads))
        parts = []
        while first < end:
            number = bisect_right(self._ends, first)
            last = min(end, self._ends[number])
            begin = self._ends[number] - len(self._loads[number].order)
            parts.append(torch.from_numpy(self._load(number)[first - begin : last - begin]))
            first = last
        return torch.cat(parts)

    def _load(self, number: int) -> np.ndarray:
        if number != self._held:
            self._held_records, self._held = self.file.read(self._loads[number]), number
        return self._held_records
