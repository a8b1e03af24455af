"""Starts a run, finds out why it ended, and starts it again if processes are lost.

It does so until the run has a record or cannot have one now. What counts as a result is decided here, from
the published record and from how the processes say they ended. Exit codes are not trusted: a plug-in can end
its process with any of them.
"""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from signal import Signals
from typing import NamedTuple

from thinwire.base import digests
from thinwire.base.errors import ResourceError, UserError
from thinwire.base.files import stamp, writing
from thinwire.config.cell import Cell, sources
from thinwire.data.dataset import MANIFEST
from thinwire.launch.run_processes import RUNNING, ExitReport, How
from thinwire.records import record
from thinwire.records.invariants import require_invariants
from thinwire.records.provenance import now
from thinwire.records.record import Record, Status
from thinwire.train.record_check import is_there, record_of
from thinwire.train.result_files import block_command, data_folder, partial_folder, record_folder, run_command

# A run that loses processes resumes from its last checkpoint. After so many attempts it has failed.
ATTEMPTS = 3
# What is said of it, if that is the cause; and was a process lost, so that another attempt may succeed?
_CAUSES = {
    How.DIVERGED: ("{who}: {what}", False),
    How.FAILED: ("{who}: {what}", False),
    How.EXITED: ("{who} ended with exit code {what}, and thinwire did not end it{meanwhile}", False),
    How.DIED: ("{who} was killed by {what}{meanwhile}", True),
    How.HUNG: ("{what}", False),
    How.SILENT: ("{what}", True),
    How.GONE: ("{who} is gone; it last {doing}", True),
    How.ABSENT: ("rank {rank} has not come", True),
    How.LOST: ("{who} lost contact: {what}", True),
}


class AttemptEnd(NamedTuple):
    """How all processes of one attempt have ended."""

    reports: Sequence[ExitReport]
    asked_to_stop: int = 0  # the signal that asked the parent of these processes to stop, or 0
    command: str = ""  # how the command that started the processes ended, if there was one


# Starts the processes of a run and waits for them. Its argument says whether the run has its record.
Start = Callable[[Callable[[], bool]], AttemptEnd]


class Diagnosis(NamedTuple):
    """Why a run ended that has published nothing."""

    status: Status
    reason: str
    lost: bool  # a process was lost: another attempt may succeed
    hosts: frozenset[str] = frozenset()  # on which processes were lost
    aborted: bool = False  # was it by SIGABRT? Libraries end a process so, too


def diagnose(ends: Sequence[ExitReport]) -> Diagnosis | None:
    """Why a run has ended, naming rank, host and cause; None if no rank has begun, or none has a cause.

    The report that explains most decides, see `How`. When one process is killed, others may read half a
    message and abort, so an abort explains less than other signals.
    """
    if all(end.how is How.ABSENT for end in ends):
        return None
    order = list(How)
    causes = [end for end in ends if end.how in _CAUSES]
    cause = min(causes, key=lambda end: (order.index(end.how), end.aborted), default=None)
    if cause is None:
        return None
    sentence, lost = _CAUSES[cause.how]
    meanwhile = f" while it {cause.doing}" if cause.doing else ""
    reason = sentence.format(**cause._asdict(), who=cause.who, meanwhile=meanwhile)
    status: Status = "diverged" if cause.how is How.DIVERGED else "failed"
    if not lost:
        return Diagnosis(status, reason, lost)
    # A rank that is silent does not say so itself, and leaves no report.
    how = How.GONE if cause.how is How.SILENT else cause.how
    alike = [end for end in ends if (end.how, end.aborted) == (how, cause.aborted)]
    return Diagnosis(status, reason, lost, frozenset(end.node for end in alike), cause.aborted)


def until_it_ends(cell: Cell, results: Path, start: Start, hold: bool, log: Callable[[str], None]) -> int:
    """Run a cell until it has a result; the caller holds its lock.

    Args:
        cell: to run.
        results: a folder that all processes see.
        start: starts its processes.
        hold: leave the finished record unpublished, for the caller.
        log: is called with lines about the progress.

    Returns:
        The exit code: 0, 1 if the run failed, or 128 + the number of the signal that stopped it.

    Raises:
        UserError: a problem outside the run must be fixed; nothing is published, and nothing is lost.
    """
    partial, target = partial_folder(results, cell), record_folder(results, cell)
    made = (partial if hold else target) / record.RUN
    if finished(cell, results):
        log(f"{cell.path}: finished before")
        if not hold:
            record.put_in_place(partial, target)
        return int(record.read(made).status == "failed")
    losses: list[Diagnosis] = []
    for attempt in range(1, ATTEMPTS + 1):
        with writing(partial):
            partial.mkdir(parents=True, exist_ok=True)
            (partial / record.RUN).unlink(missing_ok=True)
        published = functools.partial(_is_replaced, made, stamp(made))
        reports, asked_to_stop, command = start(published)
        if (new_record := _collect_record(cell, results, published(), hold)) is not None:
            return int(new_record.status == "failed")
        require_no_trouble(reports)
        diagnosis = diagnose(reports)
        if diagnosis is None or diagnosis.lost:
            asked = asked_to_stop or next((int(r.what) for r in reports if r.how is How.INTERRUPTED), 0)
            if asked:
                resume = (block_command if hold else run_command)(cell, results)
                log(f"interrupted by {Signals(asked).name}; {resume} goes on from here")
                return 128 + asked
        if diagnosis is None:
            raise ResourceError(f"no process of {cell.path} came up{command}: see the output above")
        losses += [diagnosis] if diagnosis.lost else []
        if diagnosis.lost and attempt < ATTEMPTS:
            log(f"{cell.path}: {diagnosis.reason}: attempt {attempt + 1} of {ATTEMPTS}")
            continue
        if all(report.phase != RUNNING for report in reports):
            raise ResourceError(f"{cell.path} could not begin: {diagnosis.reason}")
        if diagnosis.lost and (why := _why_of_the_machine(cell, losses, reports)):
            raise ResourceError(
                f"{cell.path} lost processes in {ATTEMPTS} attempts, {why}: {diagnosis.reason}"
            )
        _publish_failure(cell, results, diagnosis.status, diagnosis.reason, hold)
        log(f"{diagnosis.status}: {diagnosis.reason}\n{target}")
        return 1
    raise AssertionError("the last attempt returns or raises")


def _why_of_the_machine(cell: Cell, losses: Sequence[Diagnosis], reports: Sequence[ExitReport]) -> str | None:
    """Why a machine may have lost the processes of all attempts, in a clause; None if the run itself has.

    A method that ends its own process on the same host every time looks the same. A missing result is better
    than a wrong one. On CPUs of a single machine, a run is asked to answer for itself.

    `losses` has one for each attempt, and `reports` the processes of the last one.
    """
    gpus = cell.device == "cuda"
    if gpus and losses[-1].aborted:
        return "by an abort, as after a fault of a GPU: see dmesg and nvidia-smi, and start again elsewhere"
    hosts = frozenset[str]().union(*(loss.hosts for loss in losses))
    several = cell.transport == "processes" and len({report.node for report in reports}) > 1
    hosts = hosts - {""} or hosts  # of a rank that has not come, none is known
    if len(hosts) != 1 or not (gpus or several):
        return None
    (host,) = hosts
    return f"all on {host or 'this machine'}: see whether it works, or start again without it"


def finished(cell: Cell, results: Path) -> bool:
    """Is there an unpublished record, sound and made with the present options, code and data?"""
    folder = partial_folder(results, cell)
    try:
        made = record_of(folder, cell)
        require_invariants(folder, made, cell)
        manifest = digests.of_file(data_folder(results, cell.dataset) / MANIFEST)
    except UserError:
        return False
    return bool(made.provenance.get("data_sha256", {}).get(MANIFEST) == manifest)


def require_no_trouble(reports: Sequence[ExitReport]) -> None:
    """Raise a UserError if a process has ended because of a problem outside the run."""
    for report in reports:
        if report.how is How.TROUBLE:
            at = "" if report.rank is None else f"{report.who}: "
            raise UserError(f"{at}{report.what}")


def _is_replaced(path: Path, before: tuple[int, int] | None) -> bool:
    return stamp(path) not in (None, before)


def _collect_record(cell: Cell, results: Path, published: bool, hold: bool) -> Record | None:
    """The record of this attempt, if it made one; a record that lacked only the last rename gets it now."""
    partial, target = partial_folder(results, cell), record_folder(results, cell)
    if published:
        return record_of(partial if hold else target, cell)
    if hold or not is_there(partial):
        return None
    written = record_of(partial, cell)
    record.put_in_place(partial, target)
    return written


def _publish_failure(cell: Cell, results: Path, status: Status, reason: str, hold: bool) -> None:
    """Publish how a run ended whose processes could not do so; with `hold` its record stays unpublished."""
    partial = partial_folder(results, cell)
    made = Record(
        kind=cell.kind,
        status=status,
        reason=reason,
        cell=cell.identity(),
        fingerprint=cell.fingerprint,
        method_options=cell.method.options,
        model_options=cell.model.options,
        provenance={"ended": now(), "sources_sha256": sources(cell)},
    )
    with writing(partial):
        partial.mkdir(parents=True, exist_ok=True)
    record.write_aside(partial, made, [], [])
    if not hold:
        record.put_in_place(partial, record_folder(results, cell))
