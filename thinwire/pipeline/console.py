"""What a person sees while the pipeline works: its runs, instead of Snakemake's lines about its jobs."""

import logging
import signal
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from thinwire.config.cell import Cell
from thinwire.pipeline.progress_lines import Progress

_EVERY_SECONDS = 1.0
# Lines of Snakemake that name jobs by number, and others that repeat a job's whole command.
_ABOUT_JOBS = ("job_started", "job_finished", "progress")
_ABOUT_COMMANDS = ("Select jobs to execute...", "RuleException:\nCalledProcessError")
# After Ctrl-C no job has failed: a person has stopped them.
_ABOUT_FAILURES = ("WorkflowError:", "Error in rule", "Exiting because a job execution failed")


class RunDisplay:
    """Prints a line for each finished run; on a terminal also one for each run that is at work."""

    def __init__(self) -> None:
        self._console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._interrupted = False

    def begin(self, planned: Iterable[Cell], logs: Iterable[str]) -> None:
        """Show the runs of these cells from now on.

        Args:
            planned: the cells whose runs the pipeline will make.
            logs: Snakemake's own log files.
        """
        self._hide_lines_about_jobs()
        signal.signal(signal.SIGINT, self._note_interrupt)
        self._console.print(f"logs: results/logs, {', '.join(logs)}")
        if self._console.is_terminal:
            self._live.start()
        progress = Progress(planned, Path("results"))
        self._thread = threading.Thread(target=self._show_until_over, args=[progress], daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Show what has finished in the meantime, and stop."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        self._live.stop()
        if self._interrupted:
            self._console.print("interrupted: start the same command again, and it goes on from here")

    def _note_interrupt(self, number: int, frame: FrameType | None) -> None:
        self._interrupted = True
        signal.default_int_handler(number, frame)

    def _hide_lines_about_jobs(self) -> None:
        """Keep lines such as "Finished jobid: 3" out of the terminal; they stay in Snakemake's log file."""
        for handler in logging.getLogger("snakemake.logging").handlers:
            if handler.name == "DefaultStreamHandler":
                handler.addFilter(self._is_for_a_person)

    def _is_for_a_person(self, line: Any) -> bool:
        event = str(getattr(line, "event", None) or "").rpartition(".")[2].lower()
        hidden = (*_ABOUT_COMMANDS, *(_ABOUT_FAILURES if self._interrupted else ()))
        return event not in _ABOUT_JOBS and not line.getMessage().startswith(hidden)

    def _show_until_over(self, progress: Progress) -> None:
        over = False
        while not over:
            over = self._over.wait(_EVERY_SECONDS)
            lines = progress.finished()
            if lines:
                lines[-1] += f" ({progress.summary()})"
            for line in lines:
                self._console.print(Text(line))
            if self._console.is_terminal:
                now = [*progress.running(), progress.summary()]
                self._live.update(Group(*(Text(line, overflow="ellipsis", no_wrap=True) for line in now)))
                self._live.refresh()


DISPLAY = RunDisplay()
