"""Settings of NCCL.

The same run gives the same bits. Calls of two channels cannot block each other. thinwire alone ends a run
that hangs.
"""

import os

from thinwire.transport.rank_placement import Address, SharedFile

# NCCL chooses its algorithm by the size of a message and by what it finds of the network, and switches add in
# another order than GPUs do (NVIDIA/nccl#1497). With these settings, the order depends on the ranks alone.
_SAME_BITS = {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple", "NCCL_NVLS_ENABLE": "0"}
# Each channel has a communicator with a stream of its own. A GPU could begin two calls in another order than
# the next GPU does, and each would wait for the other. With this, every GPU begins them in the order in which
# its worker made them. They still overlap since CUDA 12.3. NCCL's user guide describes it; NCCL 2.26 has it.
_ONE_ORDER = {"NCCL_LAUNCH_ORDER_IMPLICIT": "1"}
# torch would end a process at the first error or after ten minutes, before its heartbeat has written why.
_NO_WATCHDOG = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "0"}


def choose_nccl_settings(meeting: SharedFile | Address) -> None:
    """Set what the user has not set; call this before torch opens its first group with NCCL.

    Ranks of one machine use its loopback in any case, so that no other host can reach them.
    """
    for name, value in (_SAME_BITS | _ONE_ORDER | _NO_WATCHDOG).items():
        os.environ.setdefault(name, value)
    if isinstance(meeting, SharedFile):
        os.environ["NCCL_SOCKET_IFNAME"] = meeting.interface
