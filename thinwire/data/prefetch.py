"""Batches that a thread prepares one step ahead."""

from concurrent.futures import Future, ThreadPoolExecutor

from thinwire.data.batches import Batches, Made


class Prefetched:
    """The same batches as those of `Batches`. One thread makes them, so it never makes two at once."""

    def __init__(self, batches: Batches, steps: int) -> None:
        """Wrap the batches of a run of so many steps."""
        self.steps_per_epoch = batches.steps_per_epoch
        self._batches, self._steps = batches, steps
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="prefetch")
        self._next: tuple[int, Future[Made]] | None = None

    def at(self, step: int) -> Made:
        """As `Batches.at`. Afterwards the batches of the following step are prepared, if the run has it."""
        if self._next is None or self._next[0] != step:
            self._prepare(step)
        assert self._next is not None
        made = self._next[1].result()
        if step + 1 < self._steps:
            self._prepare(step + 1)
        return made

    def _prepare(self, step: int) -> None:
        self._next = step, self._thread.submit(self._batches.at, step)
