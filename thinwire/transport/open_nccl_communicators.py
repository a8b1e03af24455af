"""Opens NCCL's communicators and their links, which it would otherwise do at the first call of each kind."""

from collections.abc import Iterable

import torch
import torch.distributed as dist

from thinwire.transport.rendezvous import translated_errors


def open_nccl_communicators(groups: Iterable[dist.ProcessGroup], device: torch.device) -> None:
    """Let each group add one number on a GPU and exchange one between all members, and wait for both.

    The sum opens the ring, and the exchange the direct links that parameter servers use. Without this,
    seconds of NCCL's start would be part of the first steps. All members must do so at the same time, with
    their groups in the same order.

    Args:
        groups: of which this process is a member.
        device: the GPU of this worker.

    Raises:
        ConnectionLost: another process has ended.
    """
    for group in groups:
        with translated_errors():
            dist.all_reduce(torch.zeros(1, device=device), group=group)
            numbers = torch.zeros(group.size(), device=device)
            dist.all_to_all_single(torch.empty_like(numbers), numbers, group=group)
            # One after the other: two communicators that start at once may wait for each other.
            torch.cuda.synchronize(device)
