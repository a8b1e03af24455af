"""Signals that ask for a stop."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

# Ctrl-C; what most others send; what Slurm is told to send before a time limit; a terminal that is gone.
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)
# A signal may come twice, to a whole group of processes and from a parent that hands it on.
SAME_REQUEST_SECONDS = 1.0


@contextmanager
def heeding_stops(react: Callable[[int], None], once: bool = False) -> Iterator[None]:
    """Call `react` with the number of each signal that comes.

    With `once` that is the first one only, and another request, some time later, has the effect that it had
    before. A signal that this process was started to ignore (nohup) stays ignored.
    """
    first: float | None = None

    def heed(number: int, frame: FrameType | None) -> None:
        nonlocal first
        if not once or first is None:
            first = time.monotonic()
            react(number)
        elif time.monotonic() - first > SAME_REQUEST_SECONDS:
            restore()
            signal.raise_signal(number)

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    heeded = [number for number in STOPS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, heed) for number in heeded}
    try:
        yield
    finally:
        restore()


@contextmanager
def stops_held_back() -> Iterator[None]:
    """Signals that ask for a stop come when this is over."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def default_stops() -> None:
    """In a fork: signals that ask for a stop end this process, whatever its parent does with them."""
    for number in STOPS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
