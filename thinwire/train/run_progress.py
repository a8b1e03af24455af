"""How far a run is, in a small file that the pipeline shows. A record never depends on it."""

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from thinwire.records.record import PROGRESS

# Seconds between two writes: often enough for a person, and nothing beside a run's steps.
_EVERY_SECONDS = 0.5
# All other ranks wait in their next step for the one that writes, so on a slow file system it writes rarely.
_PAUSE_OVER_WRITE = 200.0


class RunProgress(NamedTuple):
    """Where a run is."""

    epoch: int  # from 1
    epochs: int
    step: int  # steps done
    steps: int  # of the whole run
    steps_here: int  # done by this attempt, which may have resumed
    seconds_here: float  # of this attempt
    score: str | None  # at the last evaluation, as people read it

    @property
    def share(self) -> float:
        return self.step / self.steps

    @property
    def seconds_left(self) -> float | None:
        """At the speed of this attempt; None at its start."""
        if not self.steps_here:
            return None
        return self.seconds_here / self.steps_here * (self.steps - self.step)


class ProgressFile:
    """Is written by the process that leads a run."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / PROGRESS
        self._first: tuple[int, float] | None = None  # step and time
        self._next = 0.0

    def update(self, step: int, steps: int, steps_per_epoch: int, score: str | None) -> None:
        """Write how far the run is, unless that was written just now; if it fails, the next time may not."""
        now = time.monotonic()
        if self._first is None:
            self._first = step, now
        if now < self._next:
            return
        first_step, first_time = self._first
        epoch = min(step, steps - 1) // steps_per_epoch + 1
        epochs = -(-steps // steps_per_epoch)
        here = step - first_step, now - first_time
        content = RunProgress(epoch, epochs, step, steps, *here, score)._asdict()
        # Who reads half of it reads it again a moment later.
        with suppress(OSError):
            self._path.write_text(json.dumps(content))
        took = time.monotonic() - now
        self._next = now + max(_EVERY_SECONDS, _PAUSE_OVER_WRITE * took)


def read(folder: Path) -> RunProgress | None:
    """How far the run that works in this folder is; None if it has not said so."""
    try:
        content: dict[str, Any] = json.loads((folder / PROGRESS).read_text())
        return RunProgress(**content)
    except (OSError, ValueError, TypeError):
        return None
