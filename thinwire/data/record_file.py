"""A file of records that several readers share, and what reading it costs: requests, bytes and seeks."""

from pathlib import Path

import numpy as np

from thinwire.data.reading_order import Load


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
        """Close the file."""
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
