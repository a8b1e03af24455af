"""Batches of a worker, each augmented anew; what is drawn for them is seeded."""

import math
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import accumulate, chain
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from thinwire.base import seeds
from thinwire.base.errors import UserError
from thinwire.base.placement import moved_to, on_gpu

# The package, too, so that its `__init__.py` counts as part of the training loop (config.cell.engine_files).
from thinwire.data import partition
from thinwire.data.arrays import Data, preparation
from thinwire.data.augmentation import augmented, mixup
from thinwire.data.partition import Load, Passes, partition_of
from thinwire.optim.recipe import PartitionKind

# For each worker: normalised images [b, C, H, W], and labels [b] or shares of the classes [b, classes]; or
# windows of text, int64 [b, L], and the characters that follow, int64 [b, L].
Made = list[tuple[Tensor, Tensor]]


def fit_on(device: torch.device, data: Data) -> bool:
    """Do all training inputs take at most a quarter of the free memory? On a CPU they always do."""
    if not on_gpu(device):
        return True
    free, _ = torch.cuda.mem_get_info(device)
    return len(data.train_inputs) * math.prod(data.shape) <= free / 4


class Batches:
    """The training batches of the workers.

    An epoch is one seeded permutation of the training set, cut into global batches. The rest at the end is
    dropped, and so is what lies beyond `epoch_steps`. Worker w takes the w-th part of each global batch. So W
    workers with b inputs each see the same inputs as one worker with W b inputs. With a partition, each
    worker takes its batches from its own inputs.

    With strided or contiguous reading, each worker has a reader of its own; see `partition`. It reads the
    file of the inputs, if there is one.
    """

    def __init__(
        self,
        data: Data,
        workers: int,
        batch: int,
        seed: int,
        device: torch.device,
        dtype: torch.dtype,
        mixup_alpha: float = 0.0,
        reading: str = "random",
        ranks: Sequence[int] | None = None,
        partition: PartitionKind = "iid",
        epoch_steps: int | None = None,
    ) -> None:
        """Batches for the workers `ranks`, or for all workers."""
        self.device = device
        file = None if reading == "random" else data.train_file
        self._on_host = file is not None or not fit_on(device, data)
        self._inputs = data.train_inputs if self._on_host else data.train_inputs.to(device)
        self._labels = data.train_labels.to(device)
        self._prepare = preparation(data, device, dtype)
        self._augment = data.augment
        self._batch = workers * batch
        self._workers = workers
        self._reading = reading
        self._order_stream = seeds.of_order(seed)
        self._ranks = list(range(workers) if ranks is None else ranks)
        self._augmentation = [seeds.of_augmentation(seed, worker) for worker in self._ranks]
        self._mixup, self._classes = mixup_alpha, data.classes
        self._mixup_streams = [seeds.of_mixup(seed, worker) for worker in self._ranks]
        self._generators = [torch.Generator() for _ in self._ranks]
        self._readers = (
            [] if file is None else [Reader(file, partial(self._loads, rank)) for rank in self._ranks]
        )
        # Of this epoch, the numbers of the inputs for each step: on the host, and on the device.
        self._epoch = -1
        self._order = self._order_there = torch.empty(0)
        self.partition = partition_of(data, workers, partition, seed)
        inputs = [] if self.partition is None else self.partition.inputs
        self._passes = [Passes(inputs[rank], seeds.of_passes(seed, rank)) for rank in self._ranks if inputs]
        self.steps_per_epoch = len(self._inputs) // self._batch
        if not self.steps_per_epoch:
            raise UserError(
                f"{workers} workers with {batch} {data.task.inputs} each need {self._batch} of them "
                f"in a step, but {data.name} has {len(self._inputs)} to train on: choose a smaller batch"
            )
        if epoch_steps is not None:
            if epoch_steps > self.steps_per_epoch:
                raise UserError(
                    f"recipe.epoch_steps: a pass over {data.name} has only {self.steps_per_epoch} steps, not "
                    f"{epoch_steps}: leave it out"
                )
            self.steps_per_epoch = epoch_steps

    def at(self, step: int) -> Made:
        """For each of the workers at this step what it trains on, see `Made`."""
        epoch, place = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._order = self._order_of(epoch)
            self._order_there = moved_to(self.device, self._order)
            self._epoch = epoch
        chosen = self._order_there[place]
        if self._readers:
            share = self._batch // self._workers
            first, end = place * share, (place + 1) * share
            inputs = torch.cat([reader.records(epoch, first, end) for reader in self._readers])
        else:
            inputs = self._inputs[self._order[place] if self._on_host else chosen]
        inputs = moved_to(self.device, inputs)
        if self._augment:
            for generator, stream in zip(self._generators, self._augmentation):
                generator.manual_seed(stream.at(step))
            inputs = augmented(inputs, self._augment, self._generators)
        parts = len(self._ranks)
        batches = list(zip(self._prepare(inputs).chunk(parts), self._labels[chosen].chunk(parts)))
        if not self._mixup:
            return batches
        for generator, stream in zip(self._generators, self._mixup_streams):
            generator.manual_seed(stream.at(step))
        return [mixup(*own, self._classes, self._mixup, g) for own, g in zip(batches, self._generators)]

    def _order_of(self, epoch: int) -> Tensor:
        """The numbers of the workers' inputs in an epoch, one worker after the other: [steps, of a step]."""
        steps, share = self.steps_per_epoch, self._batch // self._workers
        if self._passes:
            first, end = epoch * steps * share, (epoch + 1) * steps * share
            own = [each.between(first, end) for each in self._passes]
        elif self._reading == "random":
            order = partition.shuffled(len(self._inputs), self._order_stream.at(epoch))
            of_all = order[: steps * self._batch].view(steps, self._workers, share)
            return of_all[:, self._ranks].flatten(1)
        else:
            orders = [[load.order for load in self._loads(rank, epoch)] for rank in self._ranks]
            own = [torch.from_numpy(np.concatenate(order)[: steps * share]) for order in orders]
        return torch.stack([order.view(steps, share) for order in own], dim=1).flatten(1)

    def _loads(self, worker: int, epoch: int) -> Iterator[Load]:
        """What the reader of a worker reads in an epoch."""
        records, workers = len(self._inputs), self._workers
        if self._reading == "strided":
            return partition.strided(records, workers, worker, self._batch // workers)
        return partition.contiguous(records, workers, worker, epoch, self._order_stream.seed)


class Prefetched:
    """The same batches as those of `Batches`. One thread makes them, so it never makes two at once.

    On a GPU the thread has a stream of its own. So batches are made while the worker's stream still computes
    the step before. On a CPU there are no streams: `torch.cpu` has the same functions, which do nothing.
    """

    def __init__(self, batches: Batches, steps: int) -> None:
        """Wrap the batches of a run of so many steps; their GPU must be the current one."""
        self.steps_per_epoch = batches.steps_per_epoch
        self._batches, self._steps = batches, steps
        self._module = torch.get_device_module(batches.device)
        # A new thread would use the first GPU.
        self._thread = ThreadPoolExecutor(1, "prefetch", self._module.set_device, (batches.device,))
        self._stream = self._module.Stream()
        # The worker's stream may still copy the training set to the GPU.
        self._stream.wait_event(self._of_worker().record_event())
        self._next: tuple[int, Future[tuple[Made, torch.Event]]] | None = None

    def at(self, step: int) -> Made:
        """As `Batches.at`. Afterwards the batches of the following step are prepared, if the run has it."""
        if self._next is None or self._next[0] != step:
            self._prepare(step)
        assert self._next is not None
        made, done = self._next[1].result()
        self._of_worker().wait_event(done)
        for tensor in chain(*made):
            if on_gpu(tensor.device):
                # Otherwise the thread's stream could use its memory again while the worker still reads it.
                tensor.record_stream(self._of_worker())
        if step + 1 < self._steps:
            self._prepare(step + 1)
        return made

    def _prepare(self, step: int) -> None:
        self._next = step, self._thread.submit(self._make, step)

    def _make(self, step: int) -> tuple[Made, torch.Event]:
        with self._module.stream(self._stream):
            return self._batches.at(step), self._stream.record_event()

    def _of_worker(self) -> torch.Stream:
        return self._module.current_stream(self._batches.device)


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
