"""Augmentation of whole batches, seeded."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

# Least and largest ratio of width to height of a crop that is resized (Szegedy et al., arXiv 1409.4842).
_RATIOS = (3 / 4, 4 / 3)


@dataclass(frozen=True)
class Augment:
    """How training images are augmented: cropped, and half of them flipped left to right."""

    pad: int = 0  # pixels of zeros put around an image before a crop of the original size is taken
    least_area: float | None = None  # least share of the area that a crop has; it is resized to the original
    flip: bool = False

    def __post_init__(self) -> None:
        if self.pad and self.least_area:
            raise ValueError("pad and least_area are two ways to crop: choose one")

    def __bool__(self) -> bool:
        """Whether it changes anything."""
        return bool(self.pad or self.least_area or self.flip)

    def __call__(self, images: Tensor, streams: Sequence[torch.Generator]) -> Tensor:
        """Augment bytes [N, C, H, W]; each random stream (on the CPU) serves an equal share of the images."""
        share = len(images) // len(streams)
        if self.least_area:
            drawn = torch.cat([torch.rand(4, share, generator=g) for g in streams], dim=1)
            images = _resized_crop(images, drawn, self.least_area)
        if self.pad:
            offsets = torch.cat(
                [torch.randint(2 * self.pad + 1, (2, share), generator=g) for g in streams], dim=1
            ).to(images.device)
            images = _crop(functional.pad(images, [self.pad] * 4), offsets, images.shape[-2:])
        if self.flip:
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
