"""Why a run ended that has published nothing: which rank, on which host, and what happened to it."""

from collections.abc import Sequence
from typing import NamedTuple

from thinwire.launch.exit_report import ExitReport
from thinwire.transport.call_difference import first_difference


class Diagnosis(NamedTuple):
    """Why a run ended that has published nothing."""

    status: str
    reason: str
    lost: bool  # a process was lost: another attempt may succeed


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
