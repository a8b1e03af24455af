"""On which device a worker computes: the CPU, or which of its node's GPUs."""

import socket

import torch

from thinwire.config.cell import Cell
from thinwire.errors import UserError


def device_of(cell: Cell, local_rank: int = 0) -> torch.device:
    """The device of one worker of a cell.

    Args:
        cell: of the worker.
        local_rank: the number of the worker on its node, if it has a process of its own.

    Raises:
        UserError: the cell asks for a GPU that this machine does not have.
    """
    if cell.device == "cuda" and not torch.cuda.is_available():
        raise UserError(
            "the suite asks for a GPU (device: cuda), but torch finds none here: set device: cpu, or "
            "use a machine with a GPU"
        )
    if cell.device == "cpu":
        return torch.device("cpu")
    if cell.transport == "inprocess":
        return torch.device("cuda", 0)
    gpus = torch.cuda.device_count()
    # Slurm may show each rank only its own GPU.
    if gpus > 1 and local_rank >= gpus:
        raise UserError(
            f"worker {local_rank} of {socket.gethostname()} needs a GPU of its own, but there are "
            f"{gpus}: start {gpus} workers on each node"
        )
    return torch.device("cuda", local_rank if gpus > 1 else 0)
