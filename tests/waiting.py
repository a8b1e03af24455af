"""Waiting for something that another process does."""

import time
from collections.abc import Callable

# A guard against endless waiting, far longer than anything takes on a slow machine. No test depends on it.
SECONDS = 300.0


def until(what: str, holds: Callable[[], object], seconds: float = SECONDS) -> None:
    """Return when `holds()` is true.

    Raises:
        TimeoutError: it was not within `seconds`.
    """
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {seconds:.0f} s still waiting until {what}")
        time.sleep(0.02)
