"""Augmentation of whole batches, seeded."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class Augment:
    """Pad by `pad` pixels of zeros, crop back at random, and flip half of the images left to right."""

    pad: int = 0
    flip: bool = False

    def __call__(self, images: Tensor, streams: Sequence[torch.Generator]) -> Tensor:
        """Augment images [N, C, H, W]; each of the streams (on the CPU) serves an equal share of them."""
        share = len(images) // len(streams)
        if self.pad:
            offsets = torch.cat(
                [torch.randint(2 * self.pad + 1, (2, share), generator=g) for g in streams], dim=1
            ).to(images.device)
            images = _crop(functional.pad(images, [self.pad] * 4), offsets, images.shape[-2:])
        if self.flip:
            flipped = torch.cat([torch.rand(share, generator=g) < 0.5 for g in streams]).to(images.device)
            images = torch.where(flipped[:, None, None, None], images.flip(-1), images)
        return images


def _crop(padded: Tensor, offsets: Tensor, size: Sequence[int]) -> Tensor:
    """Cut a window of `size` (H, W) out of each image, at `offsets` [2, N] from the top and the left."""
    device = padded.device
    rows = offsets[0, :, None] + torch.arange(size[0], device=device)
    columns = offsets[1, :, None] + torch.arange(size[1], device=device)
    image = torch.arange(len(padded), device=device)
    # Advanced indices beside a slice: the channels come last, so they are moved back.
    cut = padded[image[:, None, None], :, rows[:, :, None], columns[:, None, :]]
    return cut.permute(0, 3, 1, 2).contiguous()
