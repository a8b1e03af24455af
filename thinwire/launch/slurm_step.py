"""Runs whose ranks Slurm starts, in a step of this job's allocation."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

from thinwire import record
from thinwire.config.cell import Cell
from thinwire.launch import exit_report, flight_recorder
from thinwire.launch.launcher_environment import srun
from thinwire.launch.retry import AttemptEnd, Start
from thinwire.stop_signals import STOPS, heeding_stops
from thinwire.train.result_folders import partial_folder

_POLL_SECONDS = 10.0


def starter(cell: Cell, results: Path) -> Start | None:
    """Give a function that starts the ranks of a run through Slurm; None if they start on this machine.

    A job with one task runs this command in a step of its own, which leaves no room for another step.
    """
    if "SLURM_JOB_ID" in os.environ and cell.transport == "processes" and cell.workers > 1:
        return lambda published: _start(cell, results)
    return None


def _start(cell: Cell, results: Path) -> AttemptEnd:
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


def wait_for_a_requeue() -> None:
    """Wait if this job is preempted: Slurm requeues only a job that lasts until the end of its grace time."""
    while _preempted():
        time.sleep(_POLL_SECONDS)


def _preempted() -> bool:
    if "SLURM_JOB_ID" not in os.environ:
        return False
    command = ["scontrol", "show", "job", os.environ["SLURM_JOB_ID"]]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return re.search(r"\bPreemptTime=\d", output) is not None
