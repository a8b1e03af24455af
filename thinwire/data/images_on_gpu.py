"""Whether the training images are kept on the GPU, or are sent there batch by batch."""

import math

import torch

from thinwire.data.read_arrays import Data


def fit_on(device: torch.device, data: Data) -> bool:
    """Do all training images take at most a quarter of the free memory? On a CPU they always do."""
    if device.type != "cuda":
        return True
    free, _ = torch.cuda.mem_get_info(device)
    return len(data.train_images) * math.prod(data.shape) <= free / 4
