"""`thinwire slurm_task SUITE`: a task of a step of Slurm, which `thinwire train` starts.

It imports torch once. For each order on stdin it forks a rank, so that no plug-in changes anything for
another run. Its own stdout says which ranks have ended. A rank prints to the log of its run.
"""

import os
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path

from thinwire.base.errors import UserError, shortage
from thinwire.base.files import writing
from thinwire.base.signals import stops_held_back
from thinwire.cli.run import train
from thinwire.config.expand import cell, require_as_planned, require_valid
from thinwire.config.suite import load
from thinwire.launch import placement, rank
from thinwire.launch.run_processes import end_of, fork, import_for_runs, killed_for_memory, stops_forwarded
from thinwire.launch.slurm_step import Order, RankEnd, of_line, to_line
from thinwire.train.result_files import log_file
from thinwire.train.run_cell import Interrupted


def slurm_task_main(arguments: Namespace) -> int:
    """Run a rank for each order, until stdin ends or a signal asks for a stop."""
    results = arguments.results.absolute()
    import_for_runs()
    # Only this process may write to the other end of stdout.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        if (order := of_line(line, Order)) is None:
            continue
        killed_before = killed_for_memory()
        stopped, code = _fork_rank(partial(_run_rank, arguments.suite, results, order, time.monotonic()))
        rank_ended = end_of(code, killed_before)
        end = RankEnd(order.launch, int(os.environ["SLURM_PROCID"]), stopped, *rank_ended)
        print(to_line(end), end="", file=answers, flush=True)
        if stopped:
            return 128 + stopped
    return 0


def _fork_rank(run: Callable[[], int]) -> tuple[int, int]:
    """Run a rank in a fork, and wait for it.

    Returns:
        The signal that asked for a stop meanwhile, or 0; and the exit code of the rank, or -N for signal N.
    """
    pids: list[int] = []
    with stops_forwarded(pids) as asked:
        with stops_held_back():
            pids.append(fork(run))
        _, status = os.waitpid(pids[0], 0)
    return asked[-1], os.waitstatus_to_exitcode(status)


def _run_rank(suite: str, results: Path, order: Order, began: float) -> int:
    """In a fork: run the rank of this task; gives the exit code."""
    try:
        require_valid(suite)
        wanted = cell(suite, order.cell)
        with writing(log := log_file(results, wanted)), open(os.devnull) as nothing, log.open("a") as output:
            for stream, file in enumerate((nothing, output, output)):
                os.dup2(file.fileno(), stream)
        require_as_planned(wanted, order.fingerprint, wanted.fingerprint)
        started = placement.from_environment(launch=order.launch)
        assert started is not None
        return rank.run(wanted, results, load(suite), started, (), began, True, train)
    except Interrupted as error:
        return 128 + error.number
    except Exception as error:
        sentence = str(error) if isinstance(error, UserError) else shortage(error)
        if sentence is None:
            raise
        print(f"thinwire: {sentence}", file=sys.stderr)
        return rank.BAD_INPUT
