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


def uses_device_group(device: torch.device, backend: str) -> bool:
    """Are all collective calls those of the GPUs' own process group?

    Otherwise some of them go through the memory of the host. With NCCL that would be another network than the
    one of the means.
    """
    return device.type == "cuda" and backend != GLOO
