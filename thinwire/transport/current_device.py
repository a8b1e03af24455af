"""Makes a worker's device the current one, which in CUDA is a setting of each thread."""

import torch


def make_current(device: torch.device) -> None:
    """Let this thread compute on a device; a new thread would use the first GPU.

    Streams, events, NCCL and the state of random numbers belong to the current device.
    """
    if device.type == "cuda":
        torch.cuda.set_device(device)
