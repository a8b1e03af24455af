"""Which verbs a channel has: on the process group of the GPUs, in shared memory, or over gloo."""

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor

import torch
import torch.distributed as dist

from thinwire.transport import flatten
from thinwire.transport.shared_memory import SharedMemory
from thinwire.transport.side_stream import SideStream
from thinwire.transport.verbs_in_shared_memory import InSharedMemory
from thinwire.transport.verbs_on_device_group import OnDeviceGroup
from thinwire.transport.verbs_over_torch_distributed import Distributed

Verbs = Distributed | InSharedMemory | OnDeviceGroup


def choose_verbs(
    group: dist.ProcessGroup,
    device: torch.device,
    open_memory: Callable[[], SharedMemory] | None,
    issuing: Executor | None,
    waiting: ThreadPoolExecutor,
    in_order: ThreadPoolExecutor,
) -> Verbs:
    """Return the verbs of a channel whose members run in several processes.

    Args:
        group: the process group of the members.
        device: of this worker's tensors.
        open_memory: opens the memory that the members share; None if they share none.
        issuing: one thread for the calls of all channels, if they use the process group of the GPUs.
        waiting: threads that wait for messages.
        in_order: one thread, which carries out calls one after the other.
    """
    if issuing is not None:
        return OnDeviceGroup(group, device, SideStream(device, issuing))
    if open_memory is not None:
        return InSharedMemory(open_memory(), in_order)
    return Distributed(group, device, flatten.Pool(), waiting, in_order)
