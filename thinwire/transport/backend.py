"""Which backend of torch.distributed carries the tensors: gloo or NCCL."""

import torch
import torch.distributed as dist

from thinwire.errors import UserError

GLOO = "gloo"


def backend_of(device: torch.device, wanted: str | None) -> str:
    """Return torch.distributed's backend for the tensors of a device; those on the CPU always use gloo.

    Raises:
        UserError: this build of torch has no NCCL.
    """
    if device.type == "cpu" or wanted == GLOO:
        return GLOO
    if not dist.is_nccl_available():
        raise UserError("this build of torch has no NCCL: install a CUDA build, or set backend: gloo")
    return "cpu:gloo,cuda:nccl"
