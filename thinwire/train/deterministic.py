"""The same bits every time."""

import os

import torch


def deterministic(device: torch.device) -> None:
    """One thread and deterministic kernels, for the rest of this process."""
    if device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.backends.cudnn.benchmark = False
    torch.set_num_threads(1)
    # What use_deterministic_algorithms(True) does, without the seconds that it takes to import inductor.
    torch.set_deterministic_debug_mode("error")
