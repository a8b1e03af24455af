"""Which images judge the trials of a tuning: some of the training set, because no trial sees the test set."""

from dataclasses import replace

import torch

from thinwire import seeds
from thinwire.data.read_arrays import Data
from thinwire.data.rows import Rows

SHARE = 0.1  # of the training set


def held_out(data: Data, share: float = SHARE) -> Data:
    """The same data for tuning: a fixed part of the *training* set stands in for the test set.

    Which part depends on the data set alone, so that every method is tuned on the same images.
    """
    generator = torch.Generator().manual_seed(seeds.derive("held out", data.name))
    order = torch.randperm(len(data.train_images), generator=generator)
    count = round(share * len(order))
    held, kept = order[:count].sort().values, order[count:].sort().values
    return replace(
        data,
        train_images=Rows(data.train_images, kept),
        train_labels=data.train_labels[kept],
        test_images=Rows(data.train_images, held),
        test_labels=data.train_labels[held],
        train_file=None,
    )
