"""Trains a block: the runs that differ only in their method.

Each run is a fork of this process, which imports torch once, so that a run begins in milliseconds. If Slurm
starts the ranks, they are forks of the tasks of one step, and this process needs no torch. Neither this
process nor a task imports a plug-in: each run imports its own, and no method changes anything for another.

A run that was made before, from the same options, code, data and preparation, is taken from the store. Timed
runs follow one another in one allocation, so that a method and its baseline are timed on the same machines.
If the rest of a block gets others, it has no times in tables (`thinwire.report.rows.collected_rows`). Their
order changes with the repetition. Runs that are not timed may run side by side.
"""

import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING, NamedTuple

from thinwire.base import digests
from thinwire.base.errors import UserError, in_one_line
from thinwire.base.files import locked, stamp, writing
from thinwire.base.signals import STOPS, interrupts_ending_at_once, stops_held_back
from thinwire.config.cell import Cell, prepares, sources
from thinwire.config.suite import load
from thinwire.config.suite_schema import Suite
from thinwire.data.dataset import MANIFEST
from thinwire.launch import slurm_step
from thinwire.launch.placement import gpus_claimed, gpus_of
from thinwire.launch.retry import Start, until_it_ends
from thinwire.launch.run_processes import fork, import_for_runs, stops_forwarded
from thinwire.records import record
from thinwire.records.invariants import require_invariants
from thinwire.train import preparation_record
from thinwire.train.preparation_record import PREPARED, identity_of
from thinwire.train.record_check import record_of
from thinwire.train.result_files import (
    block_command,
    data_command,
    data_folder,
    is_timed,
    lock_file,
    log_file,
    partial_folder,
    prepared_folder,
    record_folder,
)

if TYPE_CHECKING:
    from thinwire.train.run_cell import Attempt

_BAD_INPUT = 2  # exit code: something outside the run must be fixed


class _Running(NamedTuple):
    """A run that has begun."""

    cell: Cell
    key: str  # of its record in the store
    began: float  # seconds of the monotonic clock
    before: tuple[int, int] | None  # the stamp of the record that is there already


def train_block(
    block: Sequence[Cell],
    results: Path,
    jobs: int,
    train: "Callable[[Attempt], int]",
    log: Callable[[str], None],
    again: bool = False,
) -> int:
    """Publish the records of a block, from the store or by training; gives the exit code.

    Args:
        block: its cells, in the order in which they run.
        results: a folder that all ranks see.
        jobs: runs at the same time; 1 if they are timed.
        train: runs an attempt in a process on this machine, and gives the exit code.
        log: takes lines about the progress.
        again: train also what was made before.

    Raises:
        UserError: the data set or a preparation is missing.
    """
    keys = record_keys(block, results)
    waiting = [(cell, key) for cell, key in zip(block, keys) if again or not _found(cell, key, results)]
    log(f"{len(block) - len(waiting)} of {len(block)} runs were made before")
    if not waiting:
        return 0
    running: dict[int, _Running] = {}
    exit_code = 0

    def end(run: _Running, code: int) -> None:
        nonlocal exit_code
        cell = run.cell
        if code in (0, 1) and stamp(record_folder(results, cell) / record.RUN) == run.before:
            code = _BAD_INPUT  # a plug-in has ended the process with this code
        log(f"{cell.path}: {_outcome(cell, results, code, time.monotonic() - run.began)}")
        if code in (0, 1):
            # The store only saves time, so a full disk is no reason to stop.
            with suppress(UserError):
                store_record(cell, run.key, results)
        else:
            exit_code = exit_code or (code if code > 0 else 128 - code)

    with slurm_step.step_for(block[0], results) as step:
        starter = step.starter if step else _local_starter(load(block[0].suite), results, train)
        with gpus_claimed(gpus_of(block[0])), stops_forwarded(running) as asked:
            while running or (waiting and not (exit_code or asked[-1])):
                while waiting and len(running) < jobs and not (exit_code or asked[-1]):
                    cell, key = waiting.pop(0)
                    before = stamp(record_folder(results, cell) / record.RUN)
                    run = _Running(cell, key, time.monotonic(), before)
                    train_it = partial(_train, cell, results, starter)
                    if step:
                        end(run, train_it())
                        continue
                    with stops_held_back():
                        running[fork(train_it)] = run
                if running:
                    pid, status = os.wait()
                    end(running.pop(pid), os.waitstatus_to_exitcode(status))
    if asked[-1]:
        exit_code = 128 + asked[-1]
    if exit_code:
        slurm_step.wait_for_a_requeue()
    return exit_code


def record_keys(block: Sequence[Cell], results: Path) -> list[str]:
    """The keys of the records of a block, in its order.

    A timed run is compared with the others of its block, so its key depends on all of them.

    Raises:
        UserError: the data set is not laid out, or a preparation is missing or out of date.
    """
    own = [_made_from(cell, results) for cell in block]
    if block[0].has_ranks:
        return [digests.of_identity([own, place]) for place in range(len(own))]
    return [digests.of_identity(made_from) for made_from in own]


def key_alone(cell: Cell, results: Path) -> str | None:
    """The key of a run alone; None if it is timed in its block, deviates, or lacks data or a preparation."""
    if is_timed(cell) or cell.deviates:
        return None
    try:
        return record_keys([cell], results)[0]
    except UserError:
        return None


def publish_stored(cell: Cell, key: str, results: Path) -> bool:
    """Publish the record of a cell from the store, if it is there and sound."""
    folder = record_folder(results, cell)
    if not record.fetch(results, key, folder):
        return False
    try:
        require_invariants(folder, record_of(folder, cell), cell)
    except UserError:
        record.forget(results, key)
        return False
    return True


def _made_from(cell: Cell, results: Path) -> list[object]:
    """Options, code, data, and the preparation, which must be one of all these as they are."""
    folder, prepared = data_folder(results, cell.dataset), ""
    if not (folder / MANIFEST).exists():
        raise UserError(f"there is no data set in {folder}: prepare it with {data_command(cell, results)}")
    data = digests.of_file(folder / MANIFEST)
    if prepares(cell.method.use):
        folder = prepared_folder(results, cell)
        preparation_record.read(folder, identity_of(cell, results))
        prepared = digests.of_file(folder / PREPARED)
    return [cell.fingerprint, sources(cell), data, prepared]


def store_record(cell: Cell, key: str, results: Path) -> None:
    """Store a published record. A failed run is not stored: it may have failed by accident."""
    folder = record_folder(results, cell)
    if record_of(folder, cell).status != "failed":
        record.keep(results, key, folder)


def _found(cell: Cell, key: str, results: Path) -> bool:
    """Publish the record of a cell from the store, if it is there and no other process works on the cell."""
    with ExitStack() as held:
        try:
            held.enter_context(locked(lock_file(results, cell), f"{cell.suite}/{cell.path}"))
        except UserError:
            return False  # its run says why
        return publish_stored(cell, key, results)


def _local_starter(suite: Suite, results: Path, train: "Callable[[Attempt], int]") -> Callable[[Cell], Start]:
    """Give a function that gives the function that starts the processes of a run on this machine."""
    import_for_runs()
    with interrupts_ending_at_once():
        from thinwire.launch import local_processes
    return lambda cell: local_processes.starter(cell, suite, results, True, train)


def _train(cell: Cell, results: Path, starter: Callable[[Cell], Start]) -> int:
    """Train a cell and publish its record; gives the exit code."""
    try:
        with (
            _printing_to(log_file(results, cell)),
            locked(lock_file(results, cell), f"{cell.suite}/{cell.path}"),
        ):
            code = until_it_ends(cell, results, starter(cell), True, partial(print, flush=True))
            if code in (0, 1):
                record.put_in_place(partial_folder(results, cell), record_folder(results, cell))
            return code
    except UserError as error:
        # The disk may be too full for the log.
        print(f"thinwire: {error}", file=sys.stderr)
    except Exception:
        traceback.print_exc()
    return _BAD_INPUT


@contextmanager
def _printing_to(log: Path) -> Iterator[None]:
    """Let this process and its forks print to a file, as ranks of Slurm do."""
    with writing(log):
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(b"")
        file = log.open("a")
    before = {stream: os.dup(stream) for stream in (1, 2)}
    try:
        with file:
            for stream in before:
                os.dup2(file.fileno(), stream)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for stream, copy in before.items():
            os.dup2(copy, stream)
            os.close(copy)


def _outcome(cell: Cell, results: Path, code: int, seconds: float) -> str:
    """How a run ended, and where a person finds more or goes on."""
    log = log_file(results, cell)
    if code in (0, 1):
        made = record_of(record_folder(results, cell), cell)
        ended = f"{made.status} after {seconds:.0f} s"
        return ended if made.reason is None else f"{ended}: {in_one_line(made.reason)}; log: {log}"
    if code - 128 in STOPS:
        command = block_command(cell, results)
        return f"interrupted by {Signals(code - 128).name} after {seconds:.0f} s; {command} goes on from here"
    return f"could not go on, exit code {code} after {seconds:.0f} s; log: {log}"
