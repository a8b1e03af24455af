"""Reports of how the processes of a run ended, and the diagnosis of the run from them.

A process reports on itself. Where it could not, its parent or its flight recorder says what is known.
"""

from collections.abc import Sequence
from typing import NamedTuple

from pydantic import BaseModel

from thinwire.launch.flight_recorder import FlightRecorder, Recording
from thinwire.transport.agreement import first_difference

# The phase in which plug-ins run. Before it the ranks join each other and open their channels.
RUNNING = "runs"
# Characters of each text in a report. Longer texts would not fit into the recorder.
_MOST_TEXT = 3000


class ExitReport(BaseModel):
    """How one process ended."""

    rank: int | None = None  # None: all workers were in this process
    host: str = ""
    phase: str = RUNNING  # of the run, when the process ended
    doing: str = ""  # what it did last, as a verb phrase
    calls: dict[str, dict[str, str]] = {}  # descriptions of its last calls, by channel and number
    outcome: tuple[str, str] | None = None  # status and reason, if it failed or diverged itself
    trouble: str | None = None  # a problem outside the run that a person can fix
    interrupted: int | None = None  # the signal that asked it to stop; its state is saved
    died: str | None = None  # the signal that killed it, as seen by its parent
    exited: int | None = None  # its exit code, if something other than thinwire ended it
    alarm: str | None = None  # which ranks have stopped sending heartbeats
    hung: str | None = None  # which ranks block the run, although all send heartbeats
    vanished: bool = False  # it left no report but its flight recorder
    lost: str | None = None  # how it lost its connection to the others

    @property
    def who(self) -> str:
        return "the process" if self.rank is None else f"rank {self.rank} on {self.host}"


class Diagnosis(NamedTuple):
    """Why a run ended that has published nothing."""

    status: str
    reason: str
    lost: bool  # a process was lost: another attempt may succeed


def write(recorder: FlightRecorder, report: ExitReport) -> None:
    """Write the report of a rank into its recorder."""
    long = {name: text[:_MOST_TEXT] for name, text in report if isinstance(text, str)}
    if report.outcome is not None:
        long["outcome"] = (report.outcome[0], report.outcome[1][:_MOST_TEXT])  # type: ignore[assignment]
    about = report.model_copy(update=long)
    recorder.leave(about.model_dump_json(exclude={"phase", "doing", "calls"}))


def is_left(recorder: FlightRecorder) -> bool:
    """Has the rank written its report?"""
    return bool(recorder.read().report)


def read(recorders: Sequence[FlightRecorder]) -> list[ExitReport]:
    """The reports of all ranks."""
    return [_of(rank, recorder.read()) for rank, recorder in enumerate(recorders)]


def _of(rank: int, recording: Recording) -> ExitReport:
    if recording.report:
        left = ExitReport.model_validate_json(recording.report)
    else:
        left = ExitReport(rank=rank, host=recording.node, vanished=True)
    return left.model_copy(
        update={"phase": recording.phase, "doing": recording.doing, "calls": recording.calls}
    )


def diagnose(reports: Sequence[ExitReport]) -> Diagnosis | None:
    """Why a run has ended, naming rank, host and cause; None if no rank has started.

    The report that explains most decides. First come failures of a rank itself, calls that differ, and
    processes that exited. Then come hangs (unless a process was killed) and killed processes. Silent ranks,
    ranks that are gone and lost connections come last. When one process is killed, others may read half a
    message and abort, so an abort comes last among the killed processes.
    """
    for report in reports:
        if report.outcome is not None:
            status, reason = report.outcome
            return Diagnosis(status, reason if report.rank is None else f"{report.who}: {reason}", lost=False)
    died = sorted((r for r in reports if r.died), key=lambda report: report.died == "SIGABRT")
    lost = [f"{report.who} was killed by {report.died}{_while(report)}" for report in died]
    certain = (
        _disagreements(reports)
        or [
            f"{r.who} ended with exit code {r.exited}, and thinwire did not end it{_while(r)}"
            for r in reports
            if r.exited is not None
        ]
        or ([] if lost else [report.hung for report in reports if report.hung])
    )
    if certain:
        return Diagnosis("failed", certain[0], lost=False)
    any_started = any(report.phase or not report.vanished for report in reports)
    causes = (
        lost
        or [report.alarm for report in reports if report.alarm]
        or [f"{r.who} is gone; it last {r.doing}" for r in reports if r.vanished and r.phase]
        or [f"rank {r.rank} has not come" for r in reports if r.vanished and any_started]
        or [f"{report.who} lost contact: {report.lost}" for report in reports if report.lost]
    )
    return Diagnosis("failed", causes[0], lost=True) if causes else None


def _while(report: ExitReport) -> str:
    return f" while it {report.doing}" if report.doing else ""


def _disagreements(reports: Sequence[ExitReport]) -> list[str]:
    """For each channel, the first call in which its members differ."""
    found = []
    for channel in sorted({channel for report in reports for channel in report.calls}):
        calls = {r.rank: r.calls[channel] for r in reports if r.rank is not None and channel in r.calls}
        if difference := first_difference(calls):
            found.append(f"the workers do not agree on run.{channel.split('/')[0]}: {difference}")
    return found
