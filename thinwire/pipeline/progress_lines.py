"""How far the planned runs are, as lines for a person."""

import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from thinwire import record
from thinwire.config.cell import Cell
from thinwire.errors import UserError
from thinwire.files import stamp
from thinwire.train import run_progress
from thinwire.train.result_folders import log_file, partial_folder, record_folder


class Progress:
    """Of the cells whose runs are planned."""

    def __init__(
        self, planned: Iterable[Cell], results: Path, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._results, self._clock, self._began = results, clock, clock()
        self._began_at = datetime.now(UTC).replace(microsecond=0)  # as records have their times
        self._waiting = {f"{cell.suite}/{cell.path}": cell for cell in planned}
        self._planned = len(self._waiting)
        # An old record may still be there until its job begins.
        self._before = {name: self._stamp(cell) for name, cell in self._waiting.items()}

    def finished(self) -> list[str]:
        """A line for each run that has published its record since the last call."""
        lines = []
        for name, cell in list(self._waiting.items()):
            if self._stamp(cell) in (None, self._before[name]):
                continue
            try:
                made = record.read(record_folder(self._results, cell) / record.RUN)
            except UserError:
                continue  # it is being replaced
            del self._waiting[name]
            log = f"; log: {log_file(self._results, cell)}" if made.status == "failed" else ""
            lines.append(f"{name}: {'trained before, ' * self._is_older(made)}{_outcome(made)}{log}")
        return lines

    def _is_older(self, made: record.Record) -> bool:
        """Is a record from results/store, because its run was trained before?"""
        ended = made.provenance.get("ended")
        return ended is not None and datetime.fromisoformat(ended) < self._began_at

    def running(self) -> list[str]:
        """A line for each run that is at work now."""
        found = ((name, self._of(cell)) for name, cell in self._waiting.items())
        return [f"{name}: {_where(progress)}" for name, progress in found if progress is not None]

    def summary(self) -> str:
        """How many runs are finished, and when the others will be at this rate."""
        done = self._planned - len(self._waiting)
        parts = [p.share for cell in self._waiting.values() if (p := self._of(cell)) is not None]
        share = (done + sum(parts)) / self._planned if self._planned else 1.0
        text = f"{done} of {self._planned} runs"
        if not self._waiting or share == 0:
            return text
        left = (self._clock() - self._began) * (1 - share) / share
        return f"{text}, {share:.0%}, about {duration(left)} left"

    def _stamp(self, cell: Cell) -> tuple[int, int] | None:
        return stamp(record_folder(self._results, cell) / record.RUN)

    def _of(self, cell: Cell) -> run_progress.RunProgress | None:
        return run_progress.read(partial_folder(self._results, cell))


def duration(seconds: float) -> str:
    """Rounded up to whole seconds, minutes or tenths of hours."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def _outcome(made: record.Record) -> str:
    if made.status != "done" or made.result is None:
        return f"{made.status}: {made.reason}"
    return f"done, accuracy {made.result.test_accuracy_percent:.2f} %"


def _where(progress: run_progress.RunProgress) -> str:
    parts = [f"epoch {progress.epoch} of {progress.epochs}"]
    if progress.accuracy_percent is not None:
        parts.append(f"accuracy {progress.accuracy_percent:.2f} %")
    if progress.seconds_left is not None:
        parts.append(f"{duration(progress.seconds_left)} left")
    return ", ".join(parts)
