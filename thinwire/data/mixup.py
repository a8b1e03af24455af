"""Mixup: pairs of images and of their labels are mixed (Zhang et al., arXiv 1710.09412, equation 1).

    x <- s x_a + (1 - s) x_b, y <- s y_a + (1 - s) y_b, with the share s from Beta(alpha, alpha)

As in the authors' code, a batch has one share, and each image's partner comes from the same batch.
"""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional


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
