"""A gate at which a run waits until its test opens it, so that tests do not depend on the machine's speed.

Every copy of the project has this file, so that its methods can import it. The gate of a copy is open unless
the test has closed it.
"""

import os
import select
import signal
from functools import cache
from pathlib import Path

_POLL_SECONDS = 0.01


class Gate:
    """The gate of one copy of the project, for the test."""

    def __init__(self, folder: Path) -> None:
        self._closed, self._reached = _files(folder)

    def close(self) -> None:
        """Let runs that reach the gate wait there."""
        self._reached.unlink(missing_ok=True)
        self._closed.touch()

    def open(self) -> None:
        """Let all runs continue."""
        self._closed.unlink(missing_ok=True)

    def reached(self) -> bool:
        """Whether a run has reached the gate since it was closed."""
        return self._reached.exists()


def wait() -> None:
    """Return when the gate is open, or when this process has been sent a signal that it handles.

    For methods: they run in the main thread, in the folder of the copy. A process that has been sent a signal
    does not wait at the gate again.
    """
    closed, reached = _files(Path.cwd())
    if not closed.exists():
        return
    signalled = _signalled()
    reached.touch()
    while closed.exists() and not select.select([signalled], [], [], _POLL_SECONDS)[0]:
        pass


def _files(folder: Path) -> tuple[Path, Path]:
    return folder / "gate-closed", folder / "gate-reached"


@cache
def _signalled() -> int:
    """A pipe that is readable once a signal has come. It is never read, so it stays readable."""
    here, there = os.pipe()
    os.set_blocking(there, False)
    signal.set_wakeup_fd(there, warn_on_full_buffer=False)
    return here
