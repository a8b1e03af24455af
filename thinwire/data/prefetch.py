"""Batches that a thread prepares one step ahead."""

from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain

import torch

from thinwire.base.placement import on_gpu
from thinwire.data.batches import Batches, Made


class Prefetched:
    """The same batches as those of `Batches`. One thread makes them, so it never makes two at once.

    On a GPU the thread has a stream of its own. So batches are made while the worker's stream still computes
    the step before. On a CPU there are no streams: `torch.cpu` has the same functions, which do nothing.
    """

    def __init__(self, batches: Batches, steps: int) -> None:
        """Wrap the batches of a run of so many steps; the GPU of the batches must be the current one."""
        self.steps_per_epoch = batches.steps_per_epoch
        self._batches, self._steps = batches, steps
        self._module = torch.get_device_module(batches.device)
        # A new thread would use the first GPU.
        self._thread = ThreadPoolExecutor(1, "prefetch", self._module.set_device, (batches.device,))
        self._stream = self._module.Stream()
        # The worker's stream may still copy the training set to the GPU.
        self._stream.wait_event(self._of_worker().record_event())
        self._next: tuple[int, Future[tuple[Made, torch.Event]]] | None = None

    def at(self, step: int) -> Made:
        """As `Batches.at`. Afterwards the batches of the following step are prepared, if the run has it."""
        if self._next is None or self._next[0] != step:
            self._prepare(step)
        assert self._next is not None
        made, done = self._next[1].result()
        self._of_worker().wait_event(done)
        for tensor in chain(*made):
            if on_gpu(tensor.device):
                # Otherwise the thread's stream could use its memory again while the worker still reads it.
                tensor.record_stream(self._of_worker())
        if step + 1 < self._steps:
            self._prepare(step + 1)
        return made

    def _prepare(self, step: int) -> None:
        self._next = step, self._thread.submit(self._make, step)

    def _make(self, step: int) -> tuple[Made, torch.Event]:
        with self._module.stream(self._stream):
            return self._batches.at(step), self._stream.record_event()

    def _of_worker(self) -> torch.Stream:
        return self._module.current_stream(self._batches.device)
