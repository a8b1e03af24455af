"""A GPU that does not exist, for tests: it has streams and events, and its time is simulated.

The host puts work into the queue of a stream and goes on at once. Only waiting makes the host's time pass, or
`compute` on the host itself.
"""

from dataclasses import dataclass, field

import pytest
import torch

CUDA = torch.device("cuda", 0)


@dataclass
class Stream:
    """A queue of work; `until` is when it has done everything that it has now, in seconds."""

    until: float = 0.0


@dataclass
class FakeGpu:
    """One GPU with a current stream and one more, as NCCL has."""

    host: float = 0.0  # seconds that have passed on the host
    current: Stream = field(default_factory=Stream)
    other: Stream = field(default_factory=Stream)
    synchronised: int = 0  # how often the host has waited for all streams

    def compute(self, seconds: float) -> None:
        """Let the host compute."""
        self.host += seconds

    def put(self, seconds: float, stream: Stream | None = None) -> None:
        """Put work into the queue of a stream."""
        stream = stream or self.current
        stream.until = max(stream.until, self.host) + seconds

    def wait_for_other(self) -> None:
        """Let the current stream wait for the other one, as `Work.wait` does with NCCL."""
        self.current.until = max(self.current.until, self.other.until)

    def synchronise(self, *_: object) -> None:
        """Let the host wait for all streams."""
        self.synchronised += 1
        self.host = max(self.host, self.current.until, self.other.until)

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
                gpu.host = max(gpu.host, self.at)

            def elapsed_time(self, end: "Event") -> float:
                assert self.query(), "the stream has not come here yet"
                assert end.query(), "the stream has not come there yet"
                return 1000 * (end.at - self.at)

        monkeypatch.setattr(torch.cuda, "Event", Event)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda device: gpu.current)
        monkeypatch.setattr(torch.cuda, "synchronize", gpu.synchronise)
