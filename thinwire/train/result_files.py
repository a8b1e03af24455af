"""Where results lie, which commands make them, and how far a run is."""

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from thinwire.base.folders import suggested_command
from thinwire.config.cell import Cell
from thinwire.records.record import PROGRESS, RUN

ARCHIVE_SUFFIX = ".tar.xz"
# Seconds between two writes: often enough for a person, and nothing beside a run's steps.
_EVERY_SECONDS = 0.5
# All other ranks wait in their next step for the one that writes, so on a slow file system it writes rarely.
_PAUSE_OVER_WRITE = 200.0


def runs_folder(results: Path) -> Path:
    """The published records of all suites."""
    return results / "runs"


def folders_of_records(results: Path) -> list[Path]:
    """The folders of all published records of suites."""
    found = sorted(path.parent for path in runs_folder(results).rglob(RUN))
    return [folder for folder in found if not folder.name.startswith(".")]


def record_folder(results: Path, cell: Cell) -> Path:
    """The published record of a run."""
    return runs_folder(_of_runs(results, cell)).joinpath(cell.suite, cell.path)


def archives_folder(results: Path) -> Path:
    """The archives of records, if these are committed results."""
    return results / "records"


def record_archive(results: Path, suite: str) -> Path:
    """The archive of all records of a suite."""
    return archives_folder(results) / f"{suite}{ARCHIVE_SUFFIX}"


def set_aside_folder(results: Path, cell: Cell) -> Path:
    """Has a numbered folder for each record that was set aside."""
    return _of_runs(results, cell) / "set_aside" / cell.suite / cell.path


def partial_folder(results: Path, cell: Cell) -> Path:
    """Where a run works until it is published: its log and its checkpoints."""
    return _of_runs(results, cell) / "partial" / cell.suite / cell.path


def log_file(results: Path, cell: Cell) -> Path:
    """What a run prints when the pipeline runs it."""
    return results / "logs" / "train" / cell.suite / f"{cell.path}.txt"


def lock_file(results: Path, cell: Cell) -> Path:
    """The lock of a run, held by the one process that works on it."""
    return _of_runs(results, cell) / "partial" / cell.suite / f"{cell.path}.lock"


def data_folder(results: Path, dataset: str) -> Path:
    """The folder of a data set, as arrays."""
    return results / "data" / dataset


def prepared_folder(results: Path, cell: Cell) -> Path:
    """What the method of a cell has prepared."""
    return results / "prepared" / cell.suite / cell.preparation


def preparing_folder(results: Path, cell: Cell) -> Path:
    """Where a preparation works until it is published."""
    return results / "preparing" / cell.suite / cell.preparation


def trace_folder(results: Path, cell: Cell) -> Path:
    """What `thinwire trace` makes of a cell."""
    return results / "traces" / cell.suite / cell.path


def tracing_folder(results: Path) -> Path:
    """Stands for the folder of results while cells are traced, so that their runs leave nothing in it."""
    return results / "tracing"


def _of_runs(results: Path, cell: Cell) -> Path:
    """The folder of all runs like this one: one that deviates from its suite is apart from the pipeline's."""
    if not cell.deviates:
        return results
    # A cell may be emulated by hand on several clusters.
    return results / "by_hand" if cell.cluster is None else results / "emulated" / cell.cluster.name


def is_timed(cell: Cell) -> bool:
    """Is the cell timed, side by side with the other methods of its block?"""
    return cell.has_ranks and not cell.deviates


def run_command(cell: Cell, results: Path, *options: str) -> str:
    """The command that trains a cell by hand, or goes on with it."""
    if cell.deviates and cell.cluster is not None:
        on = ("--cluster", cell.cluster.name)
        return suggested_command("emulate", cell.suite, cell.path, *on, *options, results=results)
    how = ("--transport", cell.transport) if cell.deviates else ()
    return suggested_command("run", cell.suite, cell.path, *how, *options, results=results)


def block_command(cell: Cell, results: Path, *options: str) -> str:
    """The command that trains the block of a cell, as the pipeline does."""
    return suggested_command("train", cell.suite, cell.block, *options, results=results)


def prepare_command(cell: Cell, results: Path) -> str:
    """The command that makes the preparation of a cell's method."""
    return suggested_command("prepare", cell.suite, cell.preparation, results=results)


def data_command(cell: Cell, results: Path) -> str:
    """The command that lays out the data set of a cell."""
    data = cell.data
    words = ["data", data.use]
    words += ["--label", data.label] if data.label != data.use else []
    words += ["--options", json.dumps(data.options, ensure_ascii=False)] if data.options else []
    return suggested_command(*words, results=results)


def advice(cell: Cell, results: Path) -> str:
    """What to do if a record is missing, damaged or out of date, as the end of a message."""
    return f"start the pipeline again, or make this run again with {_command(cell, results)}"


def advice_by_hand(cell: Cell, results: Path) -> str:
    """What to do if a record breaks an invariant, as the end of a message: the pipeline does not notice."""
    return f"make this run again with {_command(cell, results, '--again')}"


def _command(cell: Cell, results: Path, *options: str) -> str:
    """The command that makes the record of a cell, as it was made: timed with its block, or alone."""
    return (block_command if is_timed(cell) else run_command)(cell, results, *options)


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


def read_progress(folder: Path) -> RunProgress | None:
    """How far the run that works in this folder is; None if it has not said so."""
    try:
        return RunProgress(**json.loads((folder / PROGRESS).read_text()))
    except (OSError, ValueError, TypeError):
        return None
