"""Which training inputs each worker reads, and in which order.

Without a partition, workers share all inputs, in one of three readings. In each epoch, every input is read
exactly once, by one of the workers.

- `random`: one permutation for each epoch.
- `contiguous` is HSGD's parallel input (Wang et al., 2020; reconstructed). Each worker owns one range of the
  file and reads it in chunks, in an order drawn for each epoch. It shuffles a few chunks at a time in a
  buffer. The ranges rotate by epoch, so that every worker has each of them in turn.
- `strided` is the way of earlier parallel readers (NVIDIA's Caffe): of every `workers` batches, each
  worker takes one and skips the others.

A partition gives each training input to exactly one worker. It follows from the data, the run's seed and the
number of workers. So it is the same for all methods. There are two:

- `dirichlet`: each worker draws the shares of its labels from a Dirichlet distribution, and all have equally
  many inputs (Hsu et al., arXiv 1909.06335). Where a label runs out, workers go on with their shares of the
  others. The parameter of a label is alpha times its frequency over the mean frequency: alpha, if all are
  equal. Two deviations: Hsu et al. divide one alpha among the labels, and their workers choose one after the
  other. Here all choose at once, so that nobody is left with what the others did not want.
- `natural`: whole clients, such as plays. Each worker has neighbours, cut where a client ends next to the
  worker's equal share of all inputs. So workers have nearly equally many inputs.

In every step each worker takes a batch of the same size. An epoch has as many steps as without a partition.
A worker goes through its own inputs in passes, each shuffled anew, whatever the epoch. It drops none of them.
One with fewer inputs sees them more often.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from thinwire.base import seeds
from thinwire.base.errors import UserError
from thinwire.base.learning import CLASSIFICATION
from thinwire.data.arrays import Data
from thinwire.data.dataset import Dataset
from thinwire.optim.recipe import Dirichlet, PartitionKind

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


def contiguous(records: int, readers: int, reader: int, epoch: int, seed: int) -> Iterator[Load]:
    """The loads of one of the readers, which share so many records, in one epoch."""
    chunk = chunk_size(records, readers)
    own = (reader + epoch) % readers
    first, end = own * records // readers, (own + 1) * records // readers
    drawn = np.random.default_rng(seeds.derive(seed, "readers", own, epoch))
    chunks = [(start, min(start + chunk, end)) for start in range(first, end, chunk)]
    in_turn = [chunks[i] for i in drawn.permutation(len(chunks))]
    for i in range(0, len(in_turn), CHUNKS_AT_ONCE):
        ranges = in_turn[i : i + CHUNKS_AT_ONCE]
        order = np.concatenate([np.arange(*own_range) for own_range in ranges])
        yield Load(ranges, drawn.permutation(order))


def strided(records: int, readers: int, reader: int, batch: int) -> Iterator[Load]:
    """The loads of one reader in any epoch: every `readers`-th batch."""
    for start in range(reader * batch, records, readers * batch):
        end = min(start + batch, records)
        yield Load([(start, end)], np.arange(start, end))


@dataclass(frozen=True)
class Partition:
    """The numbers of the training inputs of each worker, rising: int64 [n] each."""

    inputs: list[Tensor]

    @property
    def sha256(self) -> str:
        """The digest of the numbers of all workers."""
        digest = hashlib.sha256()
        for own in self.inputs:
            digest.update(f"{len(own)}\n".encode())
            digest.update(own.numpy().astype("<i8").tobytes())
        return digest.hexdigest()

    def divergence(self, data: Data) -> float:
        """The mean over the workers of the total variation between their labels and those of all.

        It is half the sum of the absolute differences of the labels' shares, from 0 to 1. The labels of a
        text are the characters that follow.
        """
        of_all = _shares(data.train_labels, data.classes)
        apart = [np.abs(_shares(data.train_labels[own], data.classes) - of_all).sum() for own in self.inputs]
        return float(np.mean(apart) / 2)


def _shares(labels: Tensor, classes: int) -> np.ndarray:
    """The share of each label: [classes]."""
    counts = torch.bincount(labels.flatten().cpu(), minlength=classes).numpy()
    return np.asarray(counts / counts.sum())


def partition_of(data: Data, workers: int, kind: PartitionKind, seed: int) -> Partition | None:
    """The partition among so many workers; None with `iid`, where workers share all inputs.

    Raises:
        UserError: the labels of a text would be shared, the data have no clients, or too few of them.
    """
    if kind == "iid":
        return None
    if isinstance(kind, Dirichlet):
        if data.train_labels.dim() > 1:
            raise UserError(
                f"the partition dirichlet shares labels, and {data.name} has {data.task.inputs}: take "
                "natural or iid"
            )
        drawn = np.random.default_rng(seeds.of_partition(seed))
        owners = _dirichlet(data.train_labels.cpu().numpy(), workers, kind.dirichlet, drawn)
    else:
        if data.clients is None:
            raise UserError(f"the partition natural needs clients, and {data.name} declares none: take iid")
        owners = _natural(data.clients.numpy(), workers, data.name)
    return Partition([torch.from_numpy(np.flatnonzero(owners == worker)) for worker in range(workers)])


def _dirichlet(labels: np.ndarray, workers: int, alpha: float, drawn: np.random.Generator) -> np.ndarray:
    """The worker of each input: int [N].

    In each round all workers ask for what they still need. Of a label that is asked for too often, each
    worker gets a random part, and nothing is left. So there are at most as many rounds as labels.
    """
    _, numbers, counts = np.unique(labels, return_inverse=True, return_counts=True)
    sizes = np.full(workers, len(labels) // workers)
    sizes[: len(labels) % workers] += 1
    shares = _log_shares(alpha * counts / counts.mean(), workers, drawn)
    given = np.zeros((workers, len(counts)), np.int64)
    while (needed := sizes - given.sum(axis=1)).any():
        left = counts - given.sum(axis=0)
        of_rest = np.where(left > 0, shares, -np.inf)
        of_rest = np.exp(of_rest - of_rest.max(axis=1, keepdims=True))
        asked = drawn.multinomial(needed, of_rest / of_rest.sum(axis=1, keepdims=True))
        for label in np.flatnonzero(asked.sum(axis=0) > left):
            asked[:, label] = drawn.multivariate_hypergeometric(asked[:, label], left[label])
        given += asked
    owners = np.empty(len(labels), np.int64)
    for number, of_workers in enumerate(given.T):
        of_label = drawn.permutation(np.flatnonzero(numbers == number))
        owners[of_label] = np.repeat(np.arange(workers), of_workers)
    return owners


def _log_shares(parameters: np.ndarray, workers: int, drawn: np.random.Generator) -> np.ndarray:
    """Logarithms of Dirichlet shares, each row less a number of its own: [workers, labels].

    Shares themselves would be 0 for small parameters. A Dirichlet share is a gamma variable over the sum of
    all, and Gamma(a) is Gamma(a + 1) U^(1/a) with a uniform U.
    """
    shape = workers, len(parameters)
    larger = np.log(drawn.standard_gamma(parameters + 1, shape))
    return np.asarray(larger - drawn.standard_exponential(shape) / parameters)


def _natural(clients: np.ndarray, workers: int, name: str) -> np.ndarray:
    """The worker of each input, from its client: int [N]."""
    _, numbers, sizes = np.unique(clients, return_inverse=True, return_counts=True)
    if workers > len(sizes):
        raise UserError(
            f"the partition natural gives each worker a client at least, and {name} has {len(sizes)} of them "
            f"for {workers} workers: take at most {len(sizes)} workers"
        )
    ends, last = np.cumsum(sizes), 0
    owner_of_client = np.zeros(len(sizes), np.int64)
    for worker in range(1, workers):
        nearest = 1 + int(np.abs(ends - worker * len(clients) / workers).argmin())
        last = min(max(nearest, last + 1), len(sizes) - workers + worker)
        owner_of_client[last:] = worker
    return np.asarray(owner_of_client[numbers])


def clients_of(data: Data, dataset: Dataset) -> Tensor:
    """The number of the client of each training input of a whole data set: int64 [N].

    Raises:
        UserError: it declares none, or gives not one for each input.
    """
    if dataset.clients is None and data.task is not CLASSIFICATION:
        raise UserError(f"the partition natural needs clients, and {data.name} declares none: take iid")
    clients = dataset.client_of_each(data.train_labels.numpy())
    if clients.shape != (len(data.train_labels),):
        raise UserError(
            f"data set {data.name}: client_of_each gives {list(clients.shape)} numbers instead of "
            f"{[len(data.train_labels)]}: one for each training input"
        )
    return torch.from_numpy(clients.astype(np.int64))


class Passes:
    """The order in which a worker goes through its inputs, again and again, each time shuffled anew."""

    def __init__(self, inputs: Tensor, stream: seeds.Stream) -> None:
        """Begin with the first pass over these inputs, int64 [n]; the stream has a seed for each pass."""
        self._inputs, self._stream = inputs, stream
        self._number, self._pass = -1, inputs

    def between(self, first: int, end: int) -> Tensor:
        """The numbers of the inputs from the `first` to before the `end` that the worker sees, from 0."""
        size, parts = len(self._inputs), []
        while first < end:
            number, place = divmod(first, size)
            taken = min(end - first, size - place)
            parts.append(self._of(number)[place : place + taken])
            first += taken
        return torch.cat(parts)

    def _of(self, number: int) -> Tensor:
        if number != self._number:
            generator = torch.Generator().manual_seed(self._stream.at(number))
            self._number = number
            self._pass = self._inputs[torch.randperm(len(self._inputs), generator=generator)]
        return self._pass
