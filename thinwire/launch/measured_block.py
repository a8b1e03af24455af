"""Trains a block: the runs that differ only in their method, one after the other in one allocation.

So a method and its baseline are timed on the same machines. The order changes with the repetition, so that a
warm cache or a busy neighbour favours no method. The records are published together when all runs have
finished. An interrupted block resumes with the run that was interrupted.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from thinwire import record
from thinwire.config.cell import Cell
from thinwire.files import locked
from thinwire.launch import exit_report, flight_recorder, local_processes
from thinwire.launch.launcher_environment import srun
from thinwire.launch.retry import AttemptEnd, Start, until_it_ends
from thinwire.stop_signals import STOPS, heeding_stops
from thinwire.train.result_folders import lock_file, partial_folder, record_folder
from thinwire.train.run_cell import Attempt

_POLL_SECONDS = 10.0


def measure(
    cells: Sequence[Cell], results: Path, train: Callable[[Attempt], int], log: Callable[[str], None]
) -> int:
    """Train the cells of a block and publish their records; gives the exit code.

    Args:
        cells: in the order in which they run.
        results: a folder that all ranks see.
        train: runs an attempt in a process on this machine, and gives the exit code.
        log: is called with lines about the progress.

    Raises:
        UserError: a problem outside a run must be fixed; finished runs are kept.
    """
    for cell in cells:
        began = time.monotonic()
        with locked(lock_file(results, cell), f"{cell.suite}/{cell.path}"):
            code = until_it_ends(cell, results, _starter(cell, results, train), True, log)
        log(f"{cell.path}: exit code {code} after {time.monotonic() - began:.0f} s")
        if code > 1:
            _wait_for_a_requeue()
            return code
    for cell in cells:
        record.put_in_place(partial_folder(results, cell), record_folder(results, cell))
    return 0


def _starter(cell: Cell, results: Path, train: Callable[[Attempt], int]) -> Start:
    """Give a function that starts the processes of a cell: on the nodes of a Slurm allocation, or here."""
    # A job with one task runs this command in a step of its own, which leaves no room for another step.
    if "SLURM_JOB_ID" in os.environ and cell.workers > 1:
        return lambda published: _by_srun(cell, results)
    return local_processes.starter(cell, results, True, train)


def _by_srun(cell: Cell, results: Path) -> AttemptEnd:
    """Start a rank for each worker of a cell in a step of the allocation, and wait for all of them."""
    folder = partial_folder(results, cell) / record.EXIT_REPORTS
    flight_recorder.make_files(folder, cell.workers)
    command = srun(cell.workers, cell.nodes)
    command += [sys.executable, "-m", "thinwire", "run", cell.suite, cell.path]
    command += ["--results", str(results), "--fingerprint", cell.fingerprint, "--hold"]
    process = subprocess.Popen(command, start_new_session=True)
    # Slurm itself sends the signals to the ranks.
    with heeding_stops(lambda number: None):
        code = process.wait()
    reports = exit_report.read(flight_recorder.in_files(folder, cell.workers))
    stopped = code - 128 if code - 128 in STOPS else 0
    return AttemptEnd(reports, stopped, f" (srun ended with exit code {code})")


def _wait_for_a_requeue() -> None:
    """Wait if this job is preempted: Slurm requeues only a job that lasts until the end of its grace time."""
    while _preempted():
        time.sleep(_POLL_SECONDS)


def _preempted() -> bool:
    if "SLURM_JOB_ID" not in os.environ:
        return False
    command = ["scontrol", "show", "job", os.environ["SLURM_JOB_ID"]]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return re.search(r"\bPreemptTime=\d", output) is not None
