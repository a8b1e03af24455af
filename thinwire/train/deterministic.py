"""Makes computations reproducible to the bit."""

import os

import torch


def deterministic(device: torch.device) -> None:
    """Use one thread and deterministic kernels for the rest of this process."""
    if device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.backends.cudnn.benchmark = False
    torch.set_num_threads(1)
    # Does what use_deterministic_algorithms(True) does, without spending seconds on importing inductor.
    torch.set_deterministic_debug_mode("error")
