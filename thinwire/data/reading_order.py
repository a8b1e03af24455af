"""In which order the training images are read: shuffled for all workers, or by a reader for each of them.

Shuffled is the default: one permutation for each epoch. Several readers share a file of records in one of
three ways: contiguous, strided, and at random.

Contiguous is HSGD's parallel input (Wang et al., 2020; reconstructed). Reader i owns one range of the file
and reads it in chunks, in an order drawn for each epoch. It shuffles a few chunks at a time in a buffer. The
ranges rotate by epoch, so that every reader has each of them in turn. Strided is the way of earlier parallel
readers (NVIDIA's Caffe): of every `readers` batches, each reader takes one and skips the others. At random is
the way in which a shuffled set is read.

In each epoch, every record is read exactly once, by one of the readers.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from thinwire import seeds

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
    """The loads of one reader in one epoch.

    Args:
        records: number of records in the file.
        readers: number of readers that share it.
        reader: number of this reader, from 0.
        epoch: number of the epoch, from 0.
        seed: the run's seed.
        chunk: number of records that are read in one go.
        chunks_at_once: number of chunks that are shuffled together.
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
    """The loads of one reader in one epoch: its part of one permutation, read record by record."""
    drawn = np.random.default_rng(seeds.derive(seed, "readers", epoch)).permutation(records)
    own = drawn[reader * records // readers : (reader + 1) * records // readers]
    for i in range(0, len(own), batch):
        yield Load([(record, record + 1) for record in own[i : i + batch].tolist()], own[i : i + batch])
