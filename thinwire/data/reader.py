"""One worker's reader of the file of the training images, load by load as `reading_order` has them."""

import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from thinwire.data.reading_order import Load
from thinwire.data.record_file import RecordFile


class Reader:
    """Reads a load when its first image is needed, and keeps it until the next one."""

    def __init__(self, path: Path, loads_of: Callable[[int], Iterator[Load]]) -> None:
        """Open the file.

        Args:
            path: of the images, uint8 [N, C, H, W].
            loads_of: the loads of an epoch.
        """
        self.file = RecordFile(path)
        weakref.finalize(self, self.file.close)
        self._loads_of = loads_of
        self._epoch = self._held = -1
        self._loads: list[Load] = []
        self._ends: list[int] = []  # of each load, the number of images up to its end
        self._images = np.empty(0)

    def images(self, epoch: int, first: int, end: int) -> Tensor:
        """The images from `first` to before `end` in the order of an epoch: uint8 [end - first, C, H, W]."""
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
            self._images, self._held = self.file.read(self._loads[number]), number
        return self._images
