"""Makes computations reproducible to the bit."""

import os

import torch


def deterministic(device: torch.device) -> None:
    """Use one thread, deterministic kernels and whole 32-bit numbers for the rest of this process.

    By default, convolutions on a GPU round their inputs to TF32, which has 10 bits of mantissa. Products of
    matrices do not.

    With deterministic kernels, torch by default also fills each new tensor with NaN. Runs do without, because
    it costs a memory pass. The tests switch it on again, to find reads of memory that nobody has written.
    """
    if device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.backends.cudnn.benchmark = False
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cuda.matmul.allow_tf32 = False
    torch.set_num_threads(1)
    # Does what use_deterministic_algorithms(True) does, without spending seconds on importing inductor.
    torch.set_deterministic_debug_mode("error")
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
