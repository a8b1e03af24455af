"""A GPU that does not exist, for tests: it has streams and events, and its time is simulated.

The host puts work into the queue of a stream and goes on at once. Only waiting makes the host's time pass, or
`compute` on the host itself.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

import pytest
import torch

CUDA = torch.device("cuda", 0)


@dataclass
class Stream:
    """A queue of work; `until` is when it has done everything that it has now, in seconds."""

    until: float = 0.0

    def record_event(self) -> float:
        """An event: when the stream comes to this place."""
        return self.until

    def wait_event(self, event: float) -> None:
        """Let all further work wait for the event."""
        self.until = max(self.until, event)

    def wait_stream(self, stream: "Stream") -> None:
        """Let all further work wait for what another stream has now."""
        self.wait_event(stream.until)


@dataclass
class FakeGpu:
    """One GPU with a current stream and one more, as NCCL has."""

    host: float = 0.0  # seconds that have passed on the host
    current: Stream = field(default_factory=Stream)
    other: Stream = field(default_factory=Stream)
    synchronised: int = 0  # how often the host has waited for all streams
    _effects: list[tuple[float, int, Callable[[], object]]] = field(default_factory=list)
    _number: Iterator[int] = field(default_factory=count)

    def compute(self, seconds: float) -> None:
        """Let the host compute."""
        self._pass(self.host + seconds)

    def put(self, seconds: float, stream: Stream | None = None, effect: Callable[[], object] = int) -> None:
        """Put work into the queue of a stream; it has its effect only when the stream has done it."""
        stream = stream or self.current
        stream.until = max(stream.until, self.host) + seconds
        heappush(self._effects, (stream.until, next(self._number), effect))

    def wait_for_other(self) -> None:
        """Let the current stream wait for the other one, as `Work.wait` does with NCCL."""
        self.current.until = max(self.current.until, self.other.until)

    def synchronise(self, *_: object) -> None:
        """Let the host wait for all streams."""
        self.synchronised += 1
        self._pass(max(self.current.until, self.other.until))

    def _pass(self, until: float) -> None:
        """Let the time of the host pass, and with it the work of all streams."""
        self.host = max(self.host, until)
        while self._effects and self._effects[0][0] <= self.host:
            heappop(self._effects)[2]()

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Replace what `torch.cuda` offers."""
        gpu = self

        class Event:
            def __init__(self, enable_timing: bool = False) -> None:
                assert enable_timing, "without it an event has no time"

            def record(self, stream: Stream) -> None:
                self.at = stream.until = max(stream.until, gpu.host)

            def query(self) -> bool:
                return self.at <= gpu.host

            def synchronize(self) -> None:
                gpu._pass(self.at)

            def elapsed_time(self, end: "Event") -> float:
                assert self.query(), "the stream has not come here yet"
                assert end.query(), "the stream has not come there yet"
                return 1000 * (end.at - self.at)

        @contextmanager
        def within(stream: Stream) -> Iterator[None]:
            before, gpu.current = gpu.current, stream
            try:
                yield
            finally:
                gpu.current = before

        monkeypatch.setattr(torch.cuda, "Event", Event)
        monkeypatch.setattr(torch.cuda, "Stream", Stream)
        monkeypatch.setattr(torch.cuda, "stream", within)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: gpu.current)
        monkeypatch.setattr(torch.cuda, "synchronize", gpu.synchronise)
