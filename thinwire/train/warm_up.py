"""Lets a GPU load its libraries before the clocks run."""

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional


def warm_up(model: nn.Module, images: Tensor, labels: Tensor) -> None:
    """Run a forward and a backward pass on a GPU, and wait for their end; nothing of the model changes.

    The first pass loads the kernels of cuDNN and cuBLAS, which takes seconds.

    Args:
        model: that will be trained; a copy of it computes.
        images: [b, C, H, W], as in a step.
        labels: of the images, as in a step.
    """
    with torch.enable_grad():
        functional.cross_entropy(copy.deepcopy(model)(images), labels).backward()
    torch.cuda.synchronize(images.device)
