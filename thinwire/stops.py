"""Signals that ask for a stop."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

# Ctrl-C; what most others send; and what Slurm is told to send before a time limit.
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


@contextmanager
def heeding_stops(react: Callable[[int], None], once: bool = False) -> Iterator[None]:
    """Call `react` with the number of each signal that comes; with `once` of the first one only."""

    def heed(number: int, frame: FrameType | None) -> None:
        react(number)
        if once:
            restore()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    before = {number: signal.signal(number, heed) for number in STOPS}
    try:
        yield
    finally:
        restore()
