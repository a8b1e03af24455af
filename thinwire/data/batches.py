"""Batches of a worker, and how images are augmented: crops, flips and mixup, all seeded."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from thinwire.base import seeds
from thinwire.base.errors import UserError
from thinwire.base.learning import CLASSIFICATION
from thinwire.base.placement import on_gpu
from thinwire.data import readers
from thinwire.data.arrays import Data, Rows
from thinwire.data.dataset import Augment
from thinwire.data.partition import Passes, partition_of
from thinwire.data.readers import Load, Reader
from thinwire.optim.inputs import PartitionKind

# Least and largest ratio of width to height of a crop that is resized (Szegedy et al., arXiv 1409.4842).
_RATIOS = (3 / 4, 4 / 3)


def augmented(images: Tensor, augment: Augment, streams: Sequence[torch.Generator]) -> Tensor:
    """Augment a batch.

    Args:
        images: bytes [N, C, H, W].
        augment: how.
        streams: random streams on the CPU; each serves an equal share of the images.
    """
    share = len(images) // len(streams)
    if augment.least_area:
        drawn = torch.cat([torch.rand(4, share, generator=g) for g in streams], dim=1)
        images = _resized_crop(images, drawn, augment.least_area)
    if augment.pad:
        offsets = torch.cat(
            [torch.randint(2 * augment.pad + 1, (2, share), generator=g) for g in streams], dim=1
        ).to(images.device)
        images = _crop(functional.pad(images, [augment.pad] * 4), offsets, images.shape[-2:])
    if augment.flip:
        flipped = torch.cat([torch.rand(share, generator=g) < 0.5 for g in streams]).to(images.device)
        images = torch.where(flipped[:, None, None, None], images.flip(-1), images)
    return images


def _resized_crop(images: Tensor, drawn: Tensor, least_area: float) -> Tensor:
    """Cut a window out of each image and stretch it to the image's size, bilinearly.

    Each image has its own call: torch's kernel for bytes is three times as fast as one `grid_sample` for all.

    Args:
        images: bytes [N, C, H, W].
        drawn: four random numbers in 0..1 for each image [4, N]: area, ratio of the sides, and two for place.
        least_area: least share of the image's area. A window longer than the image is shortened to it.
    """
    low, high = (math.log(ratio) for ratio in _RATIOS)
    area = least_area + (1 - least_area) * drawn[0]
    ratio = (low + (high - low) * drawn[1]).exp()
    height, width = images.shape[-2:]
    across = (area * ratio * height * width).sqrt().round().clamp(1, width)
    down = (area / ratio * height * width).sqrt().round().clamp(1, height)
    left = ((width - across + 1) * drawn[2]).floor()
    top = ((height - down + 1) * drawn[3]).floor()
    places = torch.stack([top, top + down, left, left + across]).int().T.tolist()
    windows = [image[None, :, y0:y1, x0:x1] for image, (y0, y1, x0, x1) in zip(images, places)]
    if on_gpu(images.device):  # the kernel for GPUs does not take bytes
        windows = [window.float() for window in windows]
    whole = [functional.interpolate(window, (height, width), mode="bilinear") for window in windows]
    return torch.cat(whole).round().to(torch.uint8) if on_gpu(images.device) else torch.cat(whole)


def _crop(padded: Tensor, offsets: Tensor, size: Sequence[int]) -> Tensor:
    """Cut a window of `size` (H, W) out of each image, at `offsets` [2, N] from the top and the left."""
    windows = padded.unfold(2, size[0], 1).unfold(3, size[1], 1)
    image = torch.arange(len(padded), device=padded.device)
    return windows[image, :, offsets[0], offsets[1]]


def mixup(
    images: Tensor, labels: Tensor, classes: int, alpha: float, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Mix images [b, C, H, W] and labels [b]; the labels become shares of the classes [b, classes].

        x <- s x_a + (1 - s) x_b, y <- s y_a + (1 - s) y_b, with the share s from Beta(alpha, alpha)

    This is equation 1 of Zhang et al., arXiv 1710.09412. As in the authors' code, a batch has one share, and
    each image's partner comes from the same batch. The cross-entropy of shares is the same mixture of the two
    labels' cross-entropies.
    """
    share = _beta(alpha, generator)
    partner = torch.randperm(len(images), generator=generator).to(images.device)
    shares = functional.one_hot(labels, classes).to(images.dtype)
    return torch.lerp(images[partner], images, share), torch.lerp(shares[partner], shares, share)


def _beta(alpha: float, generator: torch.Generator) -> float:
    """A draw from Beta(alpha, alpha); torch cannot draw it from a generator that it is given."""
    seed = int(torch.randint(2**62, (1,), generator=generator))
    return float(np.random.default_rng(seed).beta(alpha, alpha))


# For each worker: normalised images [b, C, H, W], and labels [b] or shares of the classes [b, classes]; or
# windows of text, int64 [b, L], and the characters that follow, int64 [b, L].
Made = list[tuple[Tensor, Tensor]]
_HELD_OUT = 0.1  # of the training set


def fit_on(device: torch.device, data: Data) -> bool:
    """Do all training inputs take at most a quarter of the free memory? On a CPU they always do."""
    if not on_gpu(device):
        return True
    free, _ = torch.cuda.mem_get_info(device)
    return len(data.train_inputs) * math.prod(data.shape) <= free / 4


class Batches:
    """The training batches of the workers.

    An epoch is one seeded permutation of the training set, cut into global batches. The rest at the end is
    dropped. Worker w takes the w-th part of each global batch. So W workers with b inputs each see the same
    inputs as one worker with W b inputs. With a partition, each worker takes its batches from its own inputs.

    With strided or contiguous reading, each worker has a reader of its own; see `readers`. It reads the
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
    ) -> None:
        """Batches for the workers `ranks`, or for all workers."""
        self._device = device
        file = None if reading == "random" else data.train_file
        stays = file is not None or not fit_on(device, data)
        self._inputs = data.train_inputs if stays else data.train_inputs.to(device)
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
        self._epoch = -1
        self._order = torch.empty(0)
        self.partition = partition_of(data, workers, partition, seed)
        inputs = [] if self.partition is None else self.partition.inputs
        self._passes = [Passes(inputs[rank], seeds.of_passes(seed, rank)) for rank in self._ranks if inputs]
        self.steps_per_epoch = len(self._inputs) // self._batch
        if not self.steps_per_epoch:
            raise UserError(
                f"{workers} workers with {batch} {data.task.inputs} each need {self._batch} of them "
                f"in a step, but {data.name} has {len(self._inputs)} to train on: choose a smaller batch"
            )

    def at(self, step: int) -> Made:
        """For each of the workers at this step what it trains on, see `Made`."""
        epoch, place = divmod(step, self.steps_per_epoch)
        chosen = self._chosen(step)
        inputs = self._read(epoch, place) if self._readers else self._inputs[chosen]
        inputs = inputs.to(self._device)
        if self._augment:
            for generator, stream in zip(self._generators, self._augmentation):
                generator.manual_seed(stream.at(step))
            inputs = augmented(inputs, self._augment, self._generators)
        batches = list(
            zip(
                self._prepare(inputs).chunk(len(self._ranks)),
                self._labels[chosen].chunk(len(self._ranks)),
            )
        )
        if not self._mixup:
            return batches
        for generator, stream in zip(self._generators, self._mixup_streams):
            generator.manual_seed(stream.at(step))
        return [mixup(*own, self._classes, self._mixup, g) for own, g in zip(batches, self._generators)]

    def _chosen(self, step: int) -> Tensor:
        """The numbers of the inputs of the workers `ranks` at this step, one worker after the other."""
        if self._passes:
            share = self._batch // self._workers
            return torch.cat([each.between(step * share, (step + 1) * share) for each in self._passes])
        epoch, place = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            if self._reading == "random":
                self._order = readers.shuffled(len(self._inputs), self._order_stream.at(epoch))
            else:
                self._order = self._of_readers(epoch)
            self._epoch = epoch
        chosen = self._order[place * self._batch : (place + 1) * self._batch]
        return chosen.view(self._workers, -1)[self._ranks].flatten()

    def _of_readers(self, epoch: int) -> Tensor:
        """The order of an epoch in which each worker has a reader of its own."""
        share, own = self._batch // self._workers, []
        for worker in range(self._workers):
            order = torch.from_numpy(np.concatenate([load.order for load in self._loads(worker, epoch)]))
            own.append(order[: self.steps_per_epoch * share].view(self.steps_per_epoch, share))
        return torch.stack(own, dim=1).flatten()

    def _loads(self, worker: int, epoch: int) -> Iterator[Load]:
        """What the reader of a worker reads in an epoch."""
        records, workers = len(self._inputs), self._workers
        if self._reading == "strided":
            return readers.strided(records, workers, worker, self._batch // workers)
        chunk, seed = readers.chunk_size(records, workers), self._order_stream.seed
        return readers.contiguous(records, workers, worker, epoch, seed, chunk, readers.CHUNKS_AT_ONCE)

    def _read(self, epoch: int, place: int) -> Tensor:
        """The inputs of the workers at this step of an epoch, from the file."""
        share = self._batch // self._workers
        first = place * share
        return torch.cat([reader.records(epoch, first, first + share) for reader in self._readers])


class Normalise:
    """Turns bytes into floating-point numbers with mean 0 and standard deviation 1 over the training set."""

    def __init__(self, data: Data, device: torch.device, dtype: torch.dtype) -> None:
        self._mean = torch.tensor(data.mean, dtype=dtype, device=device)[:, None, None]
        self._scale = 1 / torch.tensor(data.std, dtype=dtype, device=device)[:, None, None]

    def __call__(self, images: Tensor) -> Tensor:
        return images.to(self._mean.dtype).sub_(self._mean).mul_(self._scale)


def preparation(data: Data, device: torch.device, dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    """What turns the bytes of inputs into what a model takes: normalised images, or numbers of characters."""
    return Normalise(data, device, dtype) if data.task is CLASSIFICATION else Tensor.long


def scoring_batches(
    data: Data, device: torch.device, dtype: torch.dtype, scorer: int = 0, of: int = 1, size: int = 500
) -> Iterator[tuple[int, Tensor, Tensor]]:
    """The number, inputs and labels of every `of`-th batch of the test set, from `scorer` on."""
    prepare = preparation(data, device, dtype)
    for batch in range(scorer, -(-len(data.test_inputs) // size), of):
        part = slice(batch * size, (batch + 1) * size)
        yield batch, prepare(data.test_inputs[part].to(device)), data.test_labels[part].to(device)


def held_out(data: Data, share: float = _HELD_OUT) -> Data:
    """The same data for tuning: a fixed part of the *training* set stands in for the test set.

    Which part depends on the data set alone, so that every method is tuned on the same inputs. Of a text it
    is the end, because windows between others of their work would hold few surprises.
    """
    if data.task is CLASSIFICATION:
        generator = torch.Generator().manual_seed(seeds.derive("held out", data.name))
        order = torch.randperm(len(data.train_inputs), generator=generator)
    else:
        order = torch.arange(len(data.train_inputs)).flip(0)
    count = round(share * len(order))
    held, kept = order[:count].sort().values, order[count:].sort().values
    return replace(
        data,
        train_inputs=Rows(data.train_inputs, kept),
        train_labels=data.train_labels[kept],
        test_inputs=Rows(data.train_inputs, held),
        test_labels=data.train_labels[held],
        train_file=None,
        clients=None if data.clients is None else data.clients[kept],
    )
