"""Augmentation of whole batches, seeded: crops and flips, and mixup.

Mixup mixes pairs of images and of their labels (Zhang et al., arXiv 1710.09412, equation 1):

    x <- s x_a + (1 - s) x_b, y <- s y_a + (1 - s) y_b, with the share s from Beta(alpha, alpha)

As in the authors' code, a batch has one share, and each image's partner comes from the same batch.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from thinwire.data.dataset import Augment

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
    if images.is_cuda:  # the kernel for GPUs does not take bytes
        windows = [window.float() for window in windows]
    whole = [functional.interpolate(window, (height, width), mode="bilinear") for window in windows]
    return torch.cat(whole).round().to(torch.uint8) if images.is_cuda else torch.cat(whole)


def _crop(padded: Tensor, offsets: Tensor, size: Sequence[int]) -> Tensor:
    """Cut a window of `size` (H, W) out of each image, at `offsets` [2, N] from the top and the left."""
    windows = padded.unfold(2, size[0], 1).unfold(3, size[1], 1)
    image = torch.arange(len(padded), device=padded.device)
    return windows[image, :, offsets[0], offsets[1]]


def mixup(
    images: Tensor, labels: Tensor, classes: int, alpha: float, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Mix images [b, C, H, W] and labels [b]; the labels become shares of the classes [b, classes].

    The cross-entropy of shares is the same mixture of the two labels' cross-entropies.
    """
    share = _beta(alpha, generator)
    partner = torch.randperm(len(images), generator=generator).to(images.device)
    shares = functional.one_hot(labels, classes).to(images.dtype)
    return torch.lerp(images[partner], images, share), torch.lerp(shares[partner], shares, share)


def _beta(alpha: float, generator: torch.Generator) -> float:
    """A draw from Beta(alpha, alpha); torch cannot draw it from a generator that it is given."""
    seed = int(torch.randint(2**62, (1,), generator=generator))
    return float(np.random.default_rng(seed).beta(alpha, alpha))
