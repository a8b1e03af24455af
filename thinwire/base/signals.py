"""Requests to stop: signals, and the end of Slurm's time limit."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

# On this signal, ranks save their state.
BEFORE_TIME_LIMIT = signal.SIGUSR1
# So long before the limit: enough to save a large state on a slow file system.
SAVING_SECONDS = 120
# Ctrl-C; the default of `kill`; a time limit; a closed terminal.
STOPS = (signal.SIGINT, signal.SIGTERM, BEFORE_TIME_LIMIT, signal.SIGHUP)
# One request may arrive twice: as a signal to the whole process group, and passed on by the parent.
SAME_REQUEST_SECONDS = 1.0


@contextmanager
def heeding_stops(react: Callable[[int], None], once: bool = False) -> Iterator[None]:
    """Call `react` with the number of each stop signal that arrives.

    With `once`, `react` is called for the first signal only. A second request, at least a second later, has
    the effect that it would have without this. A signal that was ignored before (nohup) stays ignored.
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
def interrupts_ending_at_once() -> Iterator[None]:
    """During imports: let Ctrl-C end this process. An exception in an import would be a page of frames."""

    def end(number: int, frame: FrameType | None) -> None:
        os.write(2, b"thinwire: interrupted\n")
        os._exit(128 + number)

    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def stops_held_back() -> Iterator[None]:
    """Hold back stop signals; they arrive at the end of the block."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def default_stops() -> None:
    """In a fork: let stop signals end this process, whatever its parent does on them."""
    for number in STOPS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
