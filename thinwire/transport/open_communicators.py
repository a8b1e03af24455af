"""Opens NCCL's communicators, which it would otherwise do at the first collective of each channel."""

from collections.abc import Iterable

import torch
import torch.distributed as dist

from thinwire.transport.connection_errors import translated_errors


def open_communicators(groups: Iterable[dist.ProcessGroup], device: torch.device) -> None:
    """Let each group add one number on a GPU, and wait for it.

    Without this, seconds of NCCL's start would be part of the first steps. All members must do so at the same
    time, with their groups in the same order.

    Args:
        groups: of which this process is a member.
        device: the GPU of this worker.

    Raises:
        ConnectionLost: another process has ended.
    """
    for group in groups:
        with translated_errors():
            dist.all_reduce(torch.zeros(1, device=device), group=group)
            # One after the other: two communicators that start at once may wait for each other.
            torch.cuda.synchronize(device)
