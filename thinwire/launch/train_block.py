"""Trains a block: the runs that differ only in their method, each in a fork of this process.

This process imports torch once, so that a run begins in milliseconds. It never imports a plug-in: each run
imports its own, and no method changes anything for another.

A run that was made before, from the same options, code, data and preparation, is taken from the store. Timed
runs follow one another in one allocation, so that a method and its baseline are timed on the same machines.
Their order changes with the repetition. Runs that are not timed may run side by side.
"""

import os
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from signal import Signals

from thinwire import record
from thinwire.config.cell import Cell
from thinwire.errors import UserError
from thinwire.files import locked, writing
from thinwire.launch import local_processes, slurm_step
from thinwire.launch.fork import fork
from thinwire.launch.gpu_claims import gpus_claimed, gpus_of
from thinwire.launch.imports_for_runs import import_for_runs
from thinwire.launch.retry import until_it_ends
from thinwire.stop_signals import STOPS, heeding_stops, stops_held_back
from thinwire.train import reuse_record
from thinwire.train.make_again import block_command
from thinwire.train.record_check import record_of
from thinwire.train.result_folders import lock_file, log_file, partial_folder, record_folder
from thinwire.train.run_cell import Attempt

_BAD_INPUT = 2  # exit code: something outside the run must be fixed


def train_block(
    block: Sequence[Cell],
    results: Path,
    jobs: int,
    train: Callable[[Attempt], int],
    log: Callable[[str], None],
    again: bool = False,
) -> int:
    """Publish the records of a block, from the store or by training; gives the exit code.

    Args:
        block: its cells, in the order in which they run.
        results: a folder that all ranks see.
        jobs: runs at the same time; 1 if they are timed.
        train: runs an attempt in a process on this machine, and gives the exit code.
        log: is called with lines about the progress.
        again: train also what was made before.

    Raises:
        UserError: the data set or a preparation is missing.
    """
    keys = reuse_record.keys(block, results)
    waiting = [
        (cell, key) for cell, key in zip(block, keys) if again or not reuse_record.found(cell, key, results)
    ]
    log(f"{len(block) - len(waiting)} of {len(block)} runs were made before")
    if not waiting:
        return 0
    if slurm_step.starter(block[0], results) is None:
        import_for_runs()
    running: dict[int, tuple[Cell, str, float]] = {}
    asked_to_stop = exit_code = 0

    def forward_signal(number: int) -> None:
        nonlocal asked_to_stop
        asked_to_stop = number
        for pid in running:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    with gpus_claimed(gpus_of(block[0])), heeding_stops(forward_signal):
        while running or (waiting and not (exit_code or asked_to_stop)):
            while waiting and len(running) < jobs and not (exit_code or asked_to_stop):
                cell, key = waiting.pop(0)
                with stops_held_back():
                    running[fork(partial(_train, cell, results, train))] = cell, key, time.monotonic()
            pid, status = os.wait()
            cell, key, began = running.pop(pid)
            code = os.waitstatus_to_exitcode(status)
            log(f"{cell.path}: {_outcome(cell, results, code, time.monotonic() - began)}")
            if code in (0, 1):
                # The store only saves time, so a full disk is no reason to stop.
                with suppress(UserError):
                    reuse_record.keep(cell, key, results)
            else:
                exit_code = exit_code or (code if code > 0 else 128 - code)
    if asked_to_stop:
        exit_code = 128 + asked_to_stop
    if exit_code:
        slurm_step.wait_for_a_requeue()
    return exit_code


def _train(cell: Cell, results: Path, train: Callable[[Attempt], int]) -> int:
    """In a fork: train a cell and publish its record; gives the exit code."""
    log = log_file(results, cell)
    with open(os.dup(2), "w") as stderr_of_block:
        try:
            return _train_with_log(cell, results, train, log)
        except UserError as error:
            # The disk may be too full for the log.
            print(f"thinwire: {error}", file=stderr_of_block)
        except Exception:
            traceback.print_exc(file=stderr_of_block)
        return _BAD_INPUT


def _train_with_log(cell: Cell, results: Path, train: Callable[[Attempt], int], log: Path) -> int:
    """Train a cell, and write to its log what this process and its forks print."""
    with writing(log):
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w") as file:
            for stream in (1, 2):
                os.dup2(file.fileno(), stream)
    with locked(lock_file(results, cell), f"{cell.suite}/{cell.path}"):
        start = slurm_step.starter(cell, results) or local_processes.starter(cell, results, True, train)
        code = until_it_ends(cell, results, start, True, _print)
        if code in (0, 1):
            record.put_in_place(partial_folder(results, cell), record_folder(results, cell))
    return code


def _print(line: str) -> None:
    print(line, flush=True)


def _outcome(cell: Cell, results: Path, code: int, seconds: float) -> str:
    """How a run ended, and where a person finds more or goes on."""
    log = log_file(results, cell)
    if code in (0, 1):
        made = record_of(record_folder(results, cell), cell)
        ended = f"{made.status} after {seconds:.0f} s"
        return ended if made.reason is None else f"{ended}: {made.reason}; log: {log}"
    if code - 128 in STOPS:
        command = block_command(cell, results)
        return f"interrupted by {Signals(code - 128).name} after {seconds:.0f} s; {command} goes on from here"
    return f"could not go on, exit code {code} after {seconds:.0f} s; log: {log}"
