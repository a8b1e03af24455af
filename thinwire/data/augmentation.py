"""How images are augmented: crops, flips and mixup, all seeded.

Random numbers are drawn on the CPU, so that they are the same on all devices. All else happens where the
images are. On a GPU it takes as many operations for many images as for one, and the host waits for none.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from thinwire.base.placement import moved_to, on_gpu
from thinwire.data.dataset import Augment

# Least and largest ratio of width to height of a crop that is resized (Szegedy et al., arXiv 1409.4842).
_RATIOS = (3 / 4, 4 / 3)


def augmented(images: Tensor, augment: Augment, streams: Sequence[torch.Generator]) -> Tensor:
    """Augment images, bytes [N, C, H, W]; each stream, on the CPU, serves an equal share of them."""
    share = len(images) // len(streams)
    if augment.least_area:
        drawn = torch.cat([torch.rand(4, share, generator=g) for g in streams], dim=1)
        images = _resized_crop(images, drawn, augment.least_area)
    if augment.pad:
        offsets = torch.cat(
            [torch.randint(2 * augment.pad + 1, (2, share), generator=g) for g in streams], dim=1
        )
        padded = functional.pad(images, [augment.pad] * 4)
        images = _crop(padded, moved_to(images.device, offsets), images.shape[-2:])
    if augment.flip:
        flipped = torch.cat([torch.rand(share, generator=g) < 0.5 for g in streams])
        images = torch.where(moved_to(images.device, flipped)[:, None, None, None], images.flip(-1), images)
    return images


def _resized_crop(images: Tensor, drawn: Tensor, least_area: float) -> Tensor:
    """Cut a window out of each image and stretch it to the image's size, bilinearly.

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
    windows = torch.stack([top, top + down, left, left + across]).int()
    if on_gpu(images.device):
        return stretched(images, windows).round_().to(torch.uint8)
    return _stretched_one_by_one(images, windows)


def _stretched_one_by_one(images: Tensor, windows: Tensor) -> Tensor:
    """What `stretched` gives, as bytes, for images on a CPU.

    Each image has its own call: torch's kernel for bytes, which only CPUs have, is several times as fast as
    one `grid_sample` for all.
    """
    whole = [
        functional.interpolate(image[None, :, y0:y1, x0:x1], images.shape[-2:], mode="bilinear")
        for image, (y0, y1, x0, x1) in zip(images, windows.T.tolist())
    ]
    return torch.cat(whole)


def stretched(images: Tensor, windows: Tensor) -> Tensor:
    """Stretch a window of each image to the image's size, bilinearly, in one call for all: float32.

    Values are those of `torch.nn.functional.interpolate` for each window, up to the rounding of float32. So
    beyond the middles of its outermost pixels, a window goes on with these pixels.

    Args:
        images: bytes [N, C, H, W].
        windows: the top, bottom, left and right of each image's window, on the CPU, int [4, N]; bottom and
            right are the first row and column behind it.
    """
    height, width = images.shape[-2:]
    down = _sampled_at(windows[0], windows[1], height, images.device)
    across = _sampled_at(windows[2], windows[3], width, images.device)
    grid = torch.stack(
        [across[:, None, :].expand(-1, height, -1), down[:, :, None].expand(-1, -1, width)], dim=-1
    )
    return functional.grid_sample(images.float(), grid, padding_mode="border", align_corners=False)


def _sampled_at(first: Tensor, end: Tensor, size: int, device: torch.device) -> Tensor:
    """Where along one side of an image the pixels of a window come from that is stretched to `size` pixels.

    The window reaches from `first` to before `end`, [N] each. The result is float32 [N, size], as
    `grid_sample` wants it: the image's borders are at -1 and 1.
    """
    first, end = first.double(), end.double()
    # The middles of an image's pixels, which are shrunk and shifted so that they lie in the window.
    middles = torch.linspace(1 / size - 1, 1 - 1 / size, size, device=device)
    scale, shift = (end - first) / size, (end + first) / size - 1
    least, most = (2 * first + 1) / size - 1, (2 * end - 1) / size - 1
    of_each = torch.stack([scale, shift, least, most]).float()[:, :, None]
    scale, shift, least, most = moved_to(device, of_each).unbind()
    return torch.addcmul(shift, scale, middles).clamp(least, most)


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
    partner = moved_to(images.device, torch.randperm(len(images), generator=generator))
    shares = functional.one_hot(labels, classes).to(images.dtype)
    return torch.lerp(images[partner], images, share), torch.lerp(shares[partner], shares, share)


def _beta(alpha: float, generator: torch.Generator) -> float:
    """A draw from Beta(alpha, alpha); torch cannot draw it from a generator that it is given."""
    seed = int(torch.randint(2**62, (1,), generator=generator))
    return float(np.random.default_rng(seed).beta(alpha, alpha))
