"""A data set, repeated until it is large enough for many workers."""

from dataclasses import replace

import torch

from thinwire.data.arrays import Data, Rows


def repeated(data: Data, images: int) -> Data:
    """The data set with at least so many training images; it is repeated, and no image is copied."""
    there = len(data.train_images)
    times = -(-images // there)
    if times <= 1:
        return data
    rows = torch.arange(there).repeat(times)
    return replace(
        data,
        train_images=Rows(data.train_images, rows),
        train_labels=data.train_labels[rows],
        train_file=None,
    )
