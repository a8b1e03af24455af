"""`thinwire run`, `emulate` and `train`; `run` is `thinwire run` for Python.

Importing torch takes seconds, so bad input is reported before.
"""

import os
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from thinwire.base.errors import UserError
from thinwire.base.files import locked
from thinwire.base.folders import DEFAULT_RESULTS
from thinwire.base.placement import Cluster, Placement
from thinwire.base.signals import interrupts_ending_at_once
from thinwire.config.cell import Cell
from thinwire.config.expand import block, block_fingerprint, cell, require_as_planned, require_valid
from thinwire.config.grid_subset import Subset
from thinwire.config.hardware import load_cluster
from thinwire.config.suite import load, path_of
from thinwire.config.trials import only_finalists
from thinwire.emulation.network import require_emulable
from thinwire.launch import placement
from thinwire.launch.placement import gpus_claimed, gpus_of
from thinwire.launch.retry import until_it_ends
from thinwire.launch.train_block import key_alone, publish_stored, store_record, train_block
from thinwire.plugins import PACKAGE, show
from thinwire.publish.wandb.client import Live
from thinwire.records.record import Record
from thinwire.train.record_check import MISSING, cell_state, record_of, set_aside
from thinwire.train.result_files import block_command, is_timed, lock_file, record_folder, run_command

if TYPE_CHECKING:
    from thinwire.train.run_cell import Attempt, Report
    from thinwire.train.trainer import Trainer

say = partial(print, flush=True)


def settled(cell: Cell, results: Path, again: bool, leads: bool = True) -> int | None:
    """Say that a cell has its record; set aside a record that does not hold any more.

    A record that was made before, and is in the store, is published again. The caller holds the cell's lock.

    Args:
        cell: to be trained.
        results: the folder of results.
        again: train it again even if it has its record.
        leads: does this process speak and act for all ranks?

    Returns:
        The exit code if nothing is left to do; None if the cell must be trained.

    Raises:
        UserError: it cannot be trained again alone, because it was timed in its block.
    """
    state, folder = cell_state(cell, results), record_folder(results, cell)
    if not state.holds:
        if state.word != MISSING and leads:
            moved = set_aside(cell, results)
            print(f"{folder} is {state}; it is now in {moved}, and the record is made again", flush=True)
        key = None if again else key_alone(cell, results)
        if key is None or not publish_stored(cell, key, results):
            return None
        print(f"{cell.path}: made before, and found in the store; its record is in {folder}")
        return 0
    if is_timed(cell):
        how = f"{block_command(cell, results, '--again')} trains all methods of its block again"
        if again:
            raise UserError(f"{cell.path} was timed side by side with other methods: {how}")
    elif again:
        return None
    else:
        how = f"{run_command(cell, results, '--again')} trains it again"
    if leads:
        print(f"{cell.path}: finished before ({state}); its record is in {folder}; {how}")
    return int(state.word == "failed")


def run_main(arguments: Namespace) -> int:
    """Train one cell, show its progress, and publish its record."""
    require_valid(arguments.suite)
    wanted = chosen_cell(arguments)
    require_as_planned(wanted, arguments.fingerprint, wanted.fingerprint)
    # A method may change the working directory.
    results = arguments.results.absolute()
    if wanted.transport == "processes":
        started = placement.from_environment()
        cluster = Cluster(wanted.workers, wanted.nodes)
        if started is not None:
            placement.require_match(cluster, started.workers, started.launcher)
            return _as_rank(wanted, results, started, arguments)
        if arguments.workers is not None:
            placement.require_match(cluster, arguments.workers, "--workers")
    with locked(lock_file(results, wanted), f"{wanted.suite}/{wanted.path}"), gpus_claimed(gpus_of(wanted)):
        if (code := settled(wanted, results, arguments.again)) is not None:
            return code
        key = key_alone(wanted, results)
        with interrupts_ending_at_once():
            from thinwire.launch import local_processes

        start = local_processes.starter(wanted, load(wanted.suite), results, False, train)
        code = until_it_ends(wanted, results, start, False, say)
        if code == 0 and key is not None:
            # The store only saves time, so that a full disk is no reason to fail now.
            with suppress(UserError):
                store_record(wanted, key, results)
    if code in (0, 1):
        _say_if_edited(arguments, wanted)
    return code


def run(suite: str, path: str, results: str | Path = DEFAULT_RESULTS) -> Record:
    """Train one cell of a suite as `thinwire run` does, in a process of its own, and return its record.

    A record that is there and up to date is returned as it is.

    Args:
        suite: its name: a file in `config/`, without `.yaml`.
        path: of the cell, as `thinwire cells` lists it.
        results: the folder of results.

    Returns:
        The record. Its `status` says whether the run is done, diverged, failed or was skipped.

    Raises:
        UserError: the input is wrong, or a problem outside the run must be fixed; one sentence says what.
    """
    wanted, folder = cell(suite, path), Path(results).absolute()
    ended = in_a_process("run", suite, path, "--results", str(folder), stdout=None)
    if ended.returncode not in (0, 1):
        raise UserError(ended.stderr.strip().removeprefix("thinwire: "))
    return record_of(record_folder(folder, wanted), wanted)


def in_a_process(*words: str, stdout: int | None) -> "subprocess.CompletedProcess[str]":
    """Run a command of `thinwire` in a process of its own; `stdout` is that of `subprocess.run`."""
    # The same engine, wherever this process has found it.
    path = os.pathsep.join([str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-m", "thinwire", *words],
        env={**os.environ, "PYTHONPATH": path},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )


def chosen_cell(arguments: Namespace) -> Cell:
    """The cell that the arguments ask for."""
    planned = cell(arguments.suite, arguments.cell)
    transport = arguments.transport or planned.transport
    cluster = planned.cluster if transport == planned.transport else None
    if arguments.cluster is not None:
        cluster = load_cluster(arguments.cluster)
    if (transport, cluster) == (planned.transport, planned.cluster):
        return planned
    # Only processes on GPUs use NCCL.
    nccl = planned.nccl if transport == planned.transport else "bits"
    made = replace(planned, transport=transport, cluster=cluster, nccl=nccl, deviates=True)
    if cluster is not None:
        require_emulable(made)
    return made


def _say_if_edited(arguments: Namespace, trained: Cell) -> None:
    """Say that the record is of the suite as it was, if the suite was edited while the cell was trained."""
    try:
        same = chosen_cell(arguments).fingerprint == trained.fingerprint
    except UserError:
        same = False
    if not same:
        print(
            f"{show(path_of(trained.suite))} was edited during this run, whose record is of the suite as it "
            "was at the start: start again for a record of the suite as it is now"
        )


def _as_rank(wanted: Cell, results: Path, started: Placement, arguments: Namespace) -> int:
    """Run this process as the rank that srun or torchrun has assigned to it; a rank that ran ends it here."""
    code = settled(wanted, results, arguments.again, leads=started.rank == 0)
    if code is not None:
        return code
    with interrupts_ending_at_once():
        from thinwire.launch import rank
        from thinwire.train.run_cell import Interrupted
    try:
        suite = load(wanted.suite)
        code = rank.run(wanted, results, suite, started, (), time.monotonic(), False, train)
    except Interrupted as error:
        print(f"{error}; {run_command(wanted, results)} goes on from here", file=sys.stderr)
        return 128 + error.number
    if started.rank == 0:
        _say_if_edited(arguments, wanted)
    return rank.end_process(code)


def train(attempt: "Attempt") -> int:
    """Run an attempt and give the exit code. Of several ranks, the first one shows the progress."""
    if not attempt.leads:
        return int(attempt.run(lambda trainer: None).status == "failed")
    with (
        _progress(attempt.cell.evaluate_on.replace("_", "-")) as show,
        Live(attempt.cell, attempt.transport.kind, attempt.results) as live,
    ):

        def report(trainer: "Trainer") -> None:
            show(trainer)
            live.log(trainer.curve)

        made = attempt.run(report)
        live.end(made)
    outcome = made.status if made.reason is None else f"{made.status}: {made.reason}"
    if made.status == "done" and made.result is not None:
        traffic = made.result.traffic
        payload = traffic.payload_push_bytes + traffic.payload_pull_bytes
        outcome += f": {made.shown_score()}, payload {payload / 1e6:.3f} MB a worker"
    print(f"{outcome}\n{attempt.target}")
    return int(made.status == "failed")


@contextmanager
def _progress(evaluated_on: str) -> Iterator["Report"]:
    """Gives a function that shows the progress: a line for each evaluation, and a bar in a terminal."""
    console = Console(highlight=False)
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("steps"), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("train", total=None)
        seen = 0

        def report(trainer: "Trainer") -> None:
            nonlocal seen
            if console.is_terminal:
                bar.update(task, total=trainer.total_steps, completed=trainer.step)
            if len(trainer.curve) != seen:
                seen = len(trainer.curve)
                row, learns = trainer.curve[-1], trainer.task.data.task
                bar.console.print(
                    f"epoch {row['epoch']:3d}  train loss {row['train_loss']:.4f}  {evaluated_on} "
                    f"loss {row['test_loss']:.4f}  {learns.shown(row[learns.test_column])}"
                )

        yield report


def emulate_main(arguments: Namespace) -> int:
    """Train one cell on an emulated cluster, which is `thinwire run` with another transport."""
    return run_main(arguments)


def train_main(arguments: Namespace) -> int:
    """Train all methods of a block, and publish their records."""
    cells = block(arguments.suite, arguments.block, Subset.of_words(arguments.only))
    require_as_planned(cells[0], arguments.fingerprint, block_fingerprint(cells))
    if arguments.jobs < 1:
        raise UserError(f"--jobs {arguments.jobs}: it must be at least 1")
    if arguments.jobs > 1 and cells[0].has_ranks:
        raise UserError(
            f"--jobs {arguments.jobs}: the runs of {arguments.suite} are timed, one after the other"
        )
    results = arguments.results.absolute()
    if not (cells := only_finalists(cells, results)):
        return 0
    return train_block(cells, results, arguments.jobs, train, say, arguments.again)
