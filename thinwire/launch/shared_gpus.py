"""Refuses ranks that share a GPU, over which NCCL carries nothing."""

from collections.abc import Sequence

import torch

from thinwire.errors import UserError


def uuid_of(gpu: torch.device) -> str:
    """The UUID of a GPU. Its number does not tell: Slurm may show each rank only its own GPU, as number 0."""
    return str(torch.cuda.get_device_properties(gpu).uuid)


def require_gpus_of_their_own(gpus: Sequence[str], nodes: Sequence[str]) -> None:
    """Require that no two ranks share a GPU.

    NCCL itself refuses them at its first collective, with "Duplicate GPU detected" (NVIDIA/nccl#1241).

    Args:
        gpus: the UUID of each rank's GPU.
        nodes: the name of each rank's node.

    Raises:
        UserError: two ranks share a GPU; the message names them.
    """
    first: dict[str, int] = {}
    for rank, gpu in enumerate(gpus):
        other = first.setdefault(gpu, rank)
        if other != rank:
            raise UserError(
                f"ranks {other} and {rank} share a GPU of {nodes[rank]}, but NCCL needs one for each rank: "
                "start as many ranks on each node as it has GPUs, or set backend: gloo in the suite"
            )
