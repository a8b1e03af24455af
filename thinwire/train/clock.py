"""Three clocks: train, eval, harness."""

import time
from collections import deque

import torch

from thinwire.base.placement import on_gpu

# Exactly one of them runs at any time. The trainer switches them. Every step counts, the first one too.
CLOCKS = ("train", "eval", "harness")


def clock_on(device: torch.device) -> "Clock":
    """Return a clock for a run whose workers compute on this device."""
    return StreamClock(device) if on_gpu(device) else Clock()


class Clock:
    """Seconds spent on training, on evaluation and on everything else (`harness`).

    Checkpoints keep them, so they include the time before an interruption.
    """

    def __init__(self) -> None:
        self._seconds = dict.fromkeys(CLOCKS, 0.0)
        self._running = "harness"
        self._since = time.perf_counter()

    def switch(self, name: str) -> None:
        """Stop the running clock and start another one."""
        now = time.perf_counter()
        self._seconds[self._running] += now - self._since
        self._running, self._since = name, now

    def rename(self, name: str) -> None:
        """Count the time since the last switch on this clock instead."""
        self._running = name

    def read(self) -> dict[str, float]:
        """Return the seconds of each clock until the last switch."""
        return dict(self._seconds)

    def load(self, seconds: dict[str, float]) -> None:
        """Continue from the seconds of an earlier attempt."""
        self._seconds = dict(seconds)


class StreamClock(Clock):
    """The clocks of a run on a GPU, which are switched on the GPU's current stream.

    A step puts its work into the stream's queue and returns. So each switch is an event in that queue, and
    the GPU measures the seconds between two events. A switch waits for nothing. A call that a method leaves
    in flight is on a stream of its own, and counts only where the current stream waits for it.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device
        # The switches whose predecessors are not all counted yet: the clock that each starts, and its event.
        self._switches = deque([("harness", self._event())])

    def switch(self, name: str) -> None:
        """Stop the running clock and start another one, when the stream has done all work that it has now."""
        self._switches.append((name, self._event()))
        # Count what the stream has done, so that the queue stays short.
        while len(self._switches) > 1 and self._switches[1][1].query():
            self._count_first()

    def rename(self, name: str) -> None:
        """Count the time since the last switch on this clock instead."""
        self._switches[-1] = name, self._switches[-1][1]

    def read(self) -> dict[str, float]:
        """Wait until the stream has done all work before the last switch; return the seconds until then."""
        self._switches[-1][1].synchronize()
        while len(self._switches) > 1:
            self._count_first()
        return super().read()

    def _count_first(self) -> None:
        name, begin = self._switches.popleft()
        self._seconds[name] += begin.elapsed_time(self._switches[0][1]) * 1e-3  # from ms

    def _event(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event
