"""A stream beside the one in which a worker computes, for the calls of one channel."""

from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import TypeVar

import torch
from torch import Tensor

from thinwire.call import Call
from thinwire.transport import call_times

T = TypeVar("T")


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

    def submit(self, call: Call, exchange: Callable[[], T]) -> Callable[[], T]:
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
        timed = call_times.timed(call, carry_out) if self._device.type == "cpu" else carry_out
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
            if tensor.is_cuda:
                tensor.record_stream(self._current())

    def _current(self) -> torch.Stream:
        return self._module.current_stream(self._device)
