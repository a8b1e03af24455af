"""Runs whose ranks Slurm starts, in a step of this job's allocation.

One step serves all runs of a block, so that its tasks import torch only once. srun gives what it reads from
stdin to all of them: which run comes next. Each task forks a rank for it, and says on stdout when that has
ended. A step that has lost a task, or in which a rank stays behind, is ended; the next attempt begins one.
"""

import json
import os
import re
import select
import subprocess
import sys
import time
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from thinwire.base.signals import STOPS
from thinwire.config.cell import Cell
from thinwire.launch import run_processes
from thinwire.launch.placement import WAIT_SECONDS, srun
from thinwire.launch.retry import AttemptEnd, Start
from thinwire.launch.run_processes import How
from thinwire.records import record
from thinwire.train.result_files import partial_folder

_POLL_SECONDS = 10.0
# srun ends this soon when its tasks have ended, or when it was told to kill them.
_ENDING_SECONDS = 2.0 * WAIT_SECONDS


class Order(NamedTuple):
    """Tells every task to run its rank of a cell."""

    launch: int  # counts the orders to a step, from 1
    cell: str
    fingerprint: str


class RankEnd(NamedTuple):
    """Says that the rank of a task has ended."""

    launch: int
    rank: int
    stopped: int  # the signal that asked the task to stop, or 0
    how: str  # how the rank ended, and more about it, as its task saw it
    what: str


_Message = TypeVar("_Message", Order, RankEnd)


def to_line(message: Order | RankEnd) -> str:
    """A message between this process and the tasks, as a line."""
    return json.dumps({type(message).__name__: message}) + "\n"


def of_line(line: str, kind: type[_Message]) -> _Message | None:
    """The message of a line; None if it has none, because other programs may print lines, too."""
    try:
        return kind(*json.loads(line)[kind.__name__])
    except (ValueError, TypeError, KeyError):
        return None


class SlurmStep:
    """A step for the runs of a block, one after the other; it begins with the first run."""

    def __init__(self, results: Path) -> None:
        self._results = results  # a folder that all ranks see
        # For what srun prints. When it begins, stderr may be the log of a single run.
        self._stderr = os.dup(2)
        self._process: subprocess.Popen[bytes] | None = None
        self._launches = 0
        self._unread = b""  # the beginning of a line
        self._stopped = 0  # the signal with which Slurm asked the tasks to stop, or 0

    def starter(self, cell: Cell) -> Start:
        """Give a function that runs the ranks of a cell in this step, and waits for all of them."""
        return lambda published: self._run(cell)

    def close(self) -> None:
        """End the tasks, which are idle."""
        if self._process is not None:
            self._end(_ENDING_SECONDS)
        os.close(self._stderr)

    def _run(self, cell: Cell) -> AttemptEnd:
        if self._process is not None and self._process.poll() is not None:
            self._end(0)
        if self._stopped:
            return AttemptEnd([], self._stopped)
        folder = partial_folder(self._results, cell) / record.EXIT_REPORTS
        run_processes.make_files(folder, cell.workers)
        code, ends = self._launch(cell)
        reports = run_processes.reports(run_processes.in_files(folder, cell.workers))
        for end in ends:
            if reports[end.rank].how is How.GONE:
                reports[end.rank] = reports[end.rank]._replace(how=How(end.how), what=end.what)
        return AttemptEnd(
            reports, self._stopped, "" if code is None else f" (srun ended with exit code {code})"
        )

    def _launch(self, cell: Cell) -> tuple[int | None, list[RankEnd]]:
        """Run the ranks of a cell; gives the exit code of srun if the step has ended, and how ranks did."""
        process = self._process or self._begin(cell)
        self._launches += 1
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.write(to_line(Order(self._launches, cell.path, cell.fingerprint)).encode())
        running, ends, deadline = set(range(cell.workers)), list[RankEnd](), None
        while running:
            line = self._read_line(process, deadline)
            if line is None:
                return self._end(0), ends
            if not line:
                return self._end(_ENDING_SECONDS), ends
            end = of_line(line, RankEnd)
            if end is not None and end.launch == self._launches:
                running.discard(end.rank)
                ends.append(end)
                self._stopped = self._stopped or end.stopped
                # Ranks leave together: one that stays behind cannot go on.
                deadline = deadline or time.monotonic() + WAIT_SECONDS
        return None, ends

    def _begin(self, cell: Cell) -> subprocess.Popen[bytes]:
        """Start the tasks."""
        task = [sys.executable, "-m", "thinwire", "slurm_task", cell.suite, "--results", str(self._results)]
        self._launches, self._unread = 0, b""
        # Slurm itself sends signals to the tasks, so that no Ctrl-C needs to reach srun.
        self._process = subprocess.Popen(
            [*srun(cell.workers, cell.nodes, cell.device == "cuda"), *task],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            start_new_session=True,
        )
        return self._process

    def _read_line(self, process: subprocess.Popen[bytes], deadline: float | None) -> str | None:
        """The next line of the tasks; empty if the step has ended, and None if no line comes in time."""
        assert process.stdout is not None
        while b"\n" not in self._unread:
            seconds = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([process.stdout], [], [], seconds)[0]:
                return None
            more = process.stdout.read(2**16)
            if not more:
                return ""
            self._unread += more
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode(errors="replace") + "\n"

    def _end(self, patience_seconds: float) -> int:
        """Let the step end, or make it end after some seconds; gives the exit code of srun."""
        process, self._process = self._process, None
        assert process is not None
        assert process.stdin is not None
        with process:
            # Tasks that are idle end now.
            process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                code = process.wait(patience_seconds)
                if code - 128 in STOPS:
                    self._stopped = code - 128
                return code
            # On this signal srun kills its tasks.
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                return process.wait(_ENDING_SECONDS)
            process.kill()
            return process.wait()


def step_for(cell: Cell, results: Path) -> AbstractContextManager[SlurmStep | None]:
    """Give a step for the runs of the block of a cell; None if they start on this machine.

    A job with one task runs this command in a step of its own, which leaves no room for another step.
    """
    if "SLURM_JOB_ID" not in os.environ or cell.transport != "processes" or cell.workers == 1:
        return nullcontext()
    return closing(SlurmStep(results))


def wait_for_a_requeue() -> None:
    """Wait if this job is preempted: Slurm requeues only a job that lasts until the end of its grace time.

    A job that Slurm will not requeue ends at once, and Snakemake starts it again as one that has failed.
    """
    if "SLURM_JOB_ID" not in os.environ:
        return
    command = ["scontrol", "show", "job", os.environ["SLURM_JOB_ID"]]
    while will_be_requeued(subprocess.run(command, capture_output=True, text=True, check=False).stdout):
        time.sleep(_POLL_SECONDS)


def will_be_requeued(job: str) -> bool:
    """Is a job preempted that Slurm may requeue, as `scontrol show job` describes it?"""
    return all(re.search(rf"\b{pattern}", job) for pattern in (r"PreemptTime=\d", r"Requeue=1\b"))
