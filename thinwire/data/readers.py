"""How several readers share a file of records: contiguous ranges, strides, or at random.

Contiguous is HSGD's parallel input (Wang et al., 2020; reconstructed): reader i owns one range of the file,
reads it in chunks, whose order is drawn every epoch, and shuffles a few chunks at a time in a buffer; ranges
rotate by epoch, so that every reader comes by all of them. Strided is what parallel readers did before
(NVIDIA's Caffe): of every `readers` batches each takes one and skips the others. At random is what a shuffled
set asks for.

Every record is read exactly once an epoch by one of the readers.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from thinwire import seeds

# Chunks that a reader shuffles together, and the most records of one.
CHUNKS_AT_ONCE, MOST_OF_A_CHUNK = 8, 512


def chunk_size(records: int, readers: int) -> int:
    """Records of a chunk, so that a reader's range has several."""
    return max(1, min(MOST_OF_A_CHUNK, records // (readers * CHUNKS_AT_ONCE)))


class Load(NamedTuple):
    """What a reader reads before it hands on: ranges of the file, and their records as they are used."""

    ranges: list[tuple[int, int]]  # first record and the one behind the last
    order: np.ndarray  # numbers of records


def contiguous(
    records: int, readers: int, reader: int, epoch: int, seed: int, chunk: int, chunks_at_once: int
) -> Iterator[Load]:
    """The loads of one reader in one epoch.

    Args:
        records: of the file.
        readers: how many share it.
        reader: which of them, from 0.
        epoch: from 0.
        seed: of the run.
        chunk: records that are read in one go.
        chunks_at_once: how many of them are shuffled together.
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


def at_random(records: int, readers: int, reader: int, epoch: int, seed: int, batch: int) -> Iterator[Load]:
    """The loads of one reader in one epoch: its part of one permutation, record by record."""
    drawn = np.random.default_rng(seeds.derive(seed, "readers", epoch)).permutation(records)
    own = drawn[reader * records // readers : (reader + 1) * records // readers]
    for i in range(0, len(own), batch):
        yield Load([(record, record + 1) for record in own[i : i + batch].tolist()], own[i : i + batch])


class RecordFile:
    """A file of arrays (`.npy`), read record by record; counts what that takes."""

    def __init__(self, path: Path) -> None:
        shape = np.load(path, mmap_mode="r", allow_pickle=False)
        if not shape.flags.c_contiguous:
            raise ValueError(f"{path} is in Fortran's order: its records do not lie one behind the other")
        self.records = len(shape)
        self.bytes_read = 0
        self.seeks = 0  # reads that do not begin where the last one ended
        self._shape, self._dtype = shape.shape[1:], shape.dtype
        self._record_bytes = shape[:1].nbytes
        self._offset = path.stat().st_size - shape.nbytes
        self._file = path.open("rb", buffering=0)
        self._position = -1

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    def read(self, load: Load) -> np.ndarray:
        """The records of a load in the order of their use."""
        count = sum(end - start for start, end in load.ranges)
        records = np.empty((count, *self._shape), self._dtype)
        numbers, place = np.empty(count, np.int64), 0
        for start, end in load.ranges:
            if start != self._position:
                self._file.seek(self._offset + start * self._record_bytes)
                self.seeks += 1
            part = records[place : place + end - start].data.cast("B")
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
