"""A run is started, again if processes are lost, until it has a record or cannot have one now.

What counts as a result is decided here, from two things only: the record that a run has published, and the
reports of its processes. Exit codes are not trusted: code of a plug-in can end a process with any of them.
"""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from signal import Signals
from typing import NamedTuple

from thinwire import digests, record
from thinwire.config.cell import Cell
from thinwire.data.arrays import MANIFEST
from thinwire.errors import ResourceError, UserError
from thinwire.files import writing
from thinwire.launch import failure_record
from thinwire.launch.exit_report import RUNNING, ExitReport, diagnose
from thinwire.record import Record
from thinwire.train.paths import data_folder, partial_folder, record_folder
from thinwire.train.record_check import is_there, record_of

# A run whose processes were lost is started again, from its last checkpoint, before it counts as failed.
ATTEMPTS = 3


class AttemptEnd(NamedTuple):
    """How all processes of one attempt have ended."""

    reports: Sequence[ExitReport]
    asked_to_stop: int = 0  # the signal that has asked the starter itself
    command: str = ""  # how the command ended that has started the processes, if there was one


# Starts the processes of a run and waits for them; what it is given says whether the run has its record.
Start = Callable[[Callable[[], bool]], AttemptEnd]


def until_it_ends(cell: Cell, results: Path, start: Start, hold: bool, say: Callable[[str], None]) -> int:
    """Run a cell, whose lock the caller holds; gives the exit code: 0, 1 if it failed, or 128 + a signal.

    Args:
        cell: what is run.
        results: a folder that all processes see.
        start: starts its processes.
        hold: leave the finished record aside.
        say: takes lines about how it goes.

    Raises:
        UserError: something around the run must be mended; nothing is published, and nothing is lost.
    """
    partial, target = partial_folder(results, cell), record_folder(results, cell)
    made = (partial if hold else target) / record.RUN
    if finished(cell, results):
        say(f"{cell.path}: finished before")
        if not hold:
            record.put_in_place(partial, target)
        return int(record.read(made).status == "failed")
    for attempt in range(1, ATTEMPTS + 1):
        with writing(partial):
            partial.mkdir(parents=True, exist_ok=True)
            (partial / record.RUN).unlink(missing_ok=True)
        published = functools.partial(_is_replaced, made, stamp(made))
        reports, asked_to_stop, command = start(published)
        if (finished_now := _take_up(cell, results, published(), hold)) is not None:
            return int(finished_now.status == "failed")
        require_no_trouble(reports)
        told = diagnose(reports)
        if told is None or told.lost:
            asked = asked_to_stop or next((r.interrupted for r in reports if r.interrupted), 0)
            if asked:
                say(f"interrupted by {Signals(asked).name}; the next `thinwire run` goes on from here")
                return 128 + asked
        if told is None:
            raise ResourceError(f"no process of {cell.path} came up{command}: see what stands above")
        if told.lost and attempt < ATTEMPTS:
            say(f"{cell.path}: {told.reason}: attempt {attempt + 1} of {ATTEMPTS}")
            continue
        if all(report.phase != RUNNING for report in reports):
            raise ResourceError(f"{cell.path} could not begin: {told.reason}")
        failure_record.publish(cell, results, told.status, told.reason, hold)
        say(f"{told.status}: {told.reason}\n{target}")
        return 1
    raise AssertionError("the last attempt has an end")


def finished(cell: Cell, results: Path) -> bool:
    """Is a record aside, whole, that was made with the options, the code and the data of now?"""
    try:
        made = record_of(partial_folder(results, cell), cell)
        manifest = digests.of_file(data_folder(results, cell.dataset) / MANIFEST)
    except UserError:
        return False
    return bool(made.provenance.get("data_sha256", {}).get(MANIFEST) == manifest)


def require_no_trouble(reports: Sequence[ExitReport]) -> None:
    """No process has ended for something around it.

    Raises:
        UserError: naming the first that has.
    """
    for report in reports:
        if report.trouble:
            at = "" if report.rank is None else f"{report.who}: "
            raise UserError(f"{at}{report.trouble}")


def _is_replaced(path: Path, before: tuple[int, int] | None) -> bool:
    return stamp(path) not in (None, before)


def stamp(path: Path) -> tuple[int, int] | None:
    """Changes when another file takes this place."""
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_ino, about.st_mtime_ns


def _take_up(cell: Cell, results: Path, published: bool, hold: bool) -> Record | None:
    """The record that this attempt has made; one that lacked only the last rename gets it now."""
    partial, target = partial_folder(results, cell), record_folder(results, cell)
    if published:
        return record_of(partial if hold else target, cell)
    if hold or not is_there(partial):
        return None
    written = record_of(partial, cell)
    record.put_in_place(partial, target)
    return written
