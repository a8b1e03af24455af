"""Reports of how the processes of a run ended.

A process reports on itself. Where it could not, its parent or its flight recorder says what is known.
"""

from collections.abc import Sequence

from pydantic import BaseModel

from thinwire.launch.flight_recorder import FlightRecorder, Recording

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
