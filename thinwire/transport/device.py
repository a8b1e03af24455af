"""The device of a process: its backend, the stream of its calls, and how NCCL is set and opened."""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from typing import Literal, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from thinwire.base.errors import UserError
from thinwire.base.placement import Address, SharedFile, on_gpu
from thinwire.transport import metering
from thinwire.transport.call import Call
from thinwire.transport.rendezvous import translated_errors

T = TypeVar("T")
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
    return on_gpu(device) and backend != GLOO


def make_current(device: torch.device) -> None:
    """Let this thread compute on a device; a new thread would use the first GPU.

    Streams, events, NCCL and the state of random numbers belong to the current device.
    """
    if on_gpu(device):
        torch.cuda.set_device(device)


class SideStream:
    """Carries out calls in the order in which they are submitted, while the worker computes.

    On a CPU there are no streams: `torch.cpu` has the same functions, which do nothing.
    """

    def __init__(self, device: torch.device, issuing: Executor) -> None:
        """Open a stream of the current device.

        Args:
            device: of this worker's tensors.
            issuing: one thread, which issues the calls of all channels in the order of submission.
        """
        self._device, self._issuing = device, issuing
        self._module = torch.get_device_module(device)
        self._stream = self._module.Stream()

    def submit(self, call: Call, exchange: Callable[[], T], further: Sequence[Call] = ()) -> Callable[[], T]:
        """Let the issuing thread run `exchange`; return a function that waits for its result.

        The work that `exchange` puts into its stream begins when the worker's stream has come to this place.
        Waiting lets the worker's stream wait for that work. The host only waits until it has been issued.
        """
        posted = self._current().record_event()

        def carry_out() -> tuple[T, torch.Event]:
            with torch.no_grad(), self._module.stream(self._stream):
                self._stream.wait_event(posted)
                return exchange(), self._stream.record_event()

        # On a GPU the thread does not see when the work begins and ends.
        timed = carry_out
        for one in (call, *further) if self._device.type == "cpu" else ():
            timed = metering.timed(one, timed)
        issued = self._issuing.submit(timed)

        def finish() -> T:
            result, done = issued.result()
            self._current().wait_event(done)
            return result

        return finish

    def hand_over(self, tensors: Iterable[Tensor]) -> None:
        """Tell the allocator that the worker's stream uses tensors that were allocated in this one.

        Otherwise their memory could be used again while the worker's stream still reads it: see
        `torch.Tensor.record_stream`.
        """
        for tensor in tensors:
            if on_gpu(tensor.device):
                tensor.record_stream(self._current())

    def _current(self) -> torch.Stream:
        return self._module.current_stream(self._device)


# NCCL chooses its algorithm by the size of a message and by what it finds of the network, and switches add in
# another order than GPUs do (NVIDIA/nccl#1497). With these settings, the order depends on the ranks alone.
_SAME_BITS = {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple", "NCCL_NVLS_ENABLE": "0"}
# Each channel has a communicator with a stream of its own. A GPU could begin two calls in another order than
# the next GPU does, and each would wait for the other. With this, every GPU begins them in the order in which
# its worker made them. They still overlap since CUDA 12.3. NCCL's user guide describes it; NCCL 2.26 has it.
_ONE_ORDER = {"NCCL_LAUNCH_ORDER_IMPLICIT": "1"}
# torch would end a process at the first error, at a fault of its GPU or after ten minutes, before its
# heartbeat has written why.
_NO_WATCHDOG = {
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0",
    "TORCH_NCCL_ENABLE_MONITORING": "0",
    "TORCH_NCCL_RETHROW_CUDA_ERRORS": "0",
}


def choose_nccl_settings(meeting: SharedFile | Address, mode: Literal["bits", "timing"]) -> None:
    """Set what the user has not set; call this before torch opens its first group with NCCL.

    Ranks of one machine use its loopback in any case, so that no other host can reach them.

    Args:
        meeting: of the ranks.
        mode: `bits` for the same bits every time. It costs most where messages are small, so it slows down
            those methods that send little. `timing` leaves to NCCL what is only about speed.
    """
    needed = _ONE_ORDER | _NO_WATCHDOG
    for name, value in (needed if mode == "timing" else _SAME_BITS | needed).items():
        os.environ.setdefault(name, value)
    if isinstance(meeting, SharedFile):
        os.environ["NCCL_SOCKET_IFNAME"] = meeting.interface


def open_nccl_communicators(groups: Iterable[dist.ProcessGroup], device: torch.device) -> None:
    """Let each group add one number on a GPU and exchange one between all members, and wait for both.

    The sum opens the ring, and the exchange the direct links that parameter servers use. Without this,
    seconds of NCCL's start would be part of the first steps. All members must do so at the same time, with
    their groups in the same order.

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
