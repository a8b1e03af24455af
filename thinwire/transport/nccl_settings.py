"""Settings of NCCL with which the same run gives the same bits."""

import os

# NCCL chooses its algorithm by the size of a message and by what it finds of the network, and switches add in
# another order than GPUs do (NVIDIA/nccl#1497). With these settings, the order depends on the ranks alone.
_SETTINGS = {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple", "NCCL_NVLS_ENABLE": "0"}


def choose_reproducible() -> None:
    """Set what the user has not set; call this before NCCL opens its first communicator."""
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
