"""What a person sees: runs instead of Snakemake's lines about its jobs."""

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from thinwire.base.errors import UserError, in_one_line
from thinwire.base.files import stamp
from thinwire.config.cell import Cell
from thinwire.config.trials import Stage, finalists_path, only_finalists
from thinwire.pipeline import snakefile
from thinwire.records import record
from thinwire.train.result_files import RunProgress, log_file, partial_folder, read_progress, record_folder

# Between two looks at the files of all runs. A shared file system may take seconds for a look, so the pause
# after it is so many times as long.
_PAUSE_SECONDS = 1.0
_PAUSE_OVER_LOOK = 20.0

AtWork = Mapping[str, RunProgress]


class Progress:
    """Of the cells whose runs are planned.

    Of finals, the further runs of the best trials of a tuning, it is known later which trials these are.
    """

    def __init__(
        self,
        planned: Iterable[Cell],
        results: Path,
        clock: Callable[[], float] = time.monotonic,
        finals: Iterable[Cell] = (),
    ) -> None:
        self._results, self._clock, self._began = results, clock, clock()
        self._began_at = datetime.now(UTC).replace(microsecond=0)  # as records have their times
        self._waiting: dict[str, Cell] = {}
        self._before: dict[str, tuple[int, int] | None] = {}
        self._await(planned)
        tuned = {Stage.named(cell.suite).of for cell in self._waiting.values()}
        self._finals: dict[Path, list[Cell]] = {}
        # Those that are there before the trials have ended are of earlier ones.
        self._earlier_finalists: dict[Path, tuple[int, int] | None] = {}
        for cell in finals:
            of = Stage.named(cell.suite).of
            path = finalists_path(results, of)
            self._finals.setdefault(path, []).append(cell)
            if of in tuned:
                self._earlier_finalists[path] = stamp(path)

    def _await(self, planned: Iterable[Cell]) -> None:
        added = {f"{cell.suite}/{cell.path}": cell for cell in planned}
        self._waiting |= added
        # An old record may still be there until its job begins.
        self._before |= {name: self._stamp(cell) for name, cell in added.items()}

    def finished(self) -> list[str]:
        """A line for each run that has published its record since the last call."""
        for path in list(self._finals):
            if stamp(path) not in (None, self._earlier_finalists.get(path)):
                known = only_finalists(self._finals.pop(path), self._results)
                # Snakemake knows nothing of records of finals, so those that are there stay.
                self._await(cell for cell in known if self._stamp(cell) is None)
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

    def at_work(self) -> AtWork:
        """How far each run is that is at work now, by its name."""
        found = {
            name: read_progress(partial_folder(self._results, cell)) for name, cell in self._waiting.items()
        }
        return {name: progress for name, progress in found.items() if progress is not None}

    def summary(self, at_work: AtWork) -> str:
        """How many runs are finished, and when the others will be at this rate."""
        planned = len(self._before)
        done = planned - len(self._waiting)
        share = (done + sum(p.share for p in at_work.values())) / planned if planned else 1.0
        text = f"{done} of {planned} runs"
        if not self._waiting or share == 0:
            return text
        left = (self._clock() - self._began) * (1 - share) / share
        return f"{text}, {share:.0%}, about {duration(left)} left"

    def _stamp(self, cell: Cell) -> tuple[int, int] | None:
        return stamp(record_folder(self._results, cell) / record.RUN)


def duration(seconds: float) -> str:
    """Rounded to whole seconds or minutes, or to tenths of hours."""
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 59.5 * 60 else f"{seconds / 3600:.1f} h"


def _outcome(made: record.Record) -> str:
    if made.status != "done" or made.result is None:
        return in_one_line(f"{made.status}: {made.reason}")
    return f"done, {made.shown_score()}"


def running(at_work: AtWork) -> list[str]:
    """A line for each run that is at work."""
    return [f"{name}: {_where(progress)}" for name, progress in at_work.items()]


def _where(progress: RunProgress) -> str:
    parts = [f"epoch {progress.epoch} of {progress.epochs}"]
    if progress.score is not None:
        parts.append(progress.score)
    if progress.seconds_left is not None:
        parts.append(f"{duration(progress.seconds_left)} left")
    return ", ".join(parts)


class RunDisplay:
    """Prints a line for each finished run; on a terminal also one for each run that is at work."""

    def __init__(self) -> None:
        self._console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._interrupted = False

    def begin(self, planned: Iterable[Cell], finals: Iterable[Cell], logs: Iterable[str]) -> None:
        """Show the runs of these cells from now on.

        Args:
            planned: the cells whose runs the pipeline will make.
            finals: those of which it will make some, when it is known which trials of a tuning are the best.
            logs: Snakemake's own log files.
        """
        snakefile.hide_lines_about_jobs(interrupted=lambda: self._interrupted)
        signal.signal(signal.SIGINT, self._note_interrupt)
        self._console.print(f"logs: results/logs, {', '.join(logs)}")
        if self._console.is_terminal:
            self._live.start()
        progress = Progress(planned, Path("results"), finals=finals)
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

    def _show_until_over(self, progress: Progress) -> None:
        over, pause = False, _PAUSE_SECONDS
        while not over:
            over = self._over.wait(pause)
            began = time.monotonic()
            lines = progress.finished()
            at_work = progress.at_work() if lines or self._console.is_terminal else {}
            pause = max(_PAUSE_SECONDS, _PAUSE_OVER_LOOK * (time.monotonic() - began))
            if lines:
                lines[-1] += f" ({progress.summary(at_work)})"
            for line in lines:
                self._console.print(Text(line))
            if self._console.is_terminal:
                now = [*running(at_work), progress.summary(at_work)]
                self._live.update(Group(*(Text(line, overflow="ellipsis", no_wrap=True) for line in now)))
                self._live.refresh()


DISPLAY = RunDisplay()
