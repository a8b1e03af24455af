"""Starts the processes of a run, or of a preparation, on this machine, as forks of this process.

It says where each rank is, and makes the network of an emulated run. It imports what the forks need, so that
a fork takes milliseconds, and does not compute. It waits, forwards signals, and ends ranks that stay behind
when others have left. Its forks are killed when it ends.
"""

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from thinwire import plugins
from thinwire.base.errors import UserError, trouble
from thinwire.base.files import stamp
from thinwire.base.placement import Placement, SharedFile
from thinwire.base.signals import stops_held_back
from thinwire.config.cell import Cell
from thinwire.config.suite_schema import Suite
from thinwire.emulation.network import INTERFACE, MANAGEMENT, Network, require_emulable
from thinwire.launch import rank
from thinwire.launch.heartbeat import GRACE_SECONDS
from thinwire.launch.retry import AttemptEnd, Start, diagnose, require_no_trouble
from thinwire.launch.run_processes import (
    RUNNING,
    How,
    RankStatus,
    end_of,
    fork,
    import_for_runs,
    in_memory,
    killed_for_memory,
    reports,
    stops_forwarded,
)
from thinwire.train import preparation, preparation_record
from thinwire.train.cell_task import device_of
from thinwire.train.preparation_record import PREPARED, Prepared
from thinwire.train.result_files import prepared_folder
from thinwire.train.run_cell import Attempt, Interrupted

_POLL_SECONDS = 0.02


def warm_up(cell: Cell) -> None:
    """Import what all forks of a run need, before they begin."""
    import_for_runs()
    for kind, name in (("method", cell.method.use), ("model", cell.model.use), ("dataset", cell.data.use)):
        # A broken plug-in fails again in the forks, where the failure is a result.
        with suppress(plugins.PluginError):
            plugins.get(kind, name).load()


def starter(cell: Cell, suite: Suite, results: Path, hold: bool, train: Callable[[Attempt], int]) -> Start:
    """Give a function that starts the processes of a run here: one for all workers, or one for each.

    Args:
        cell: to run; the caller holds its lock.
        suite: of the cell.
        results: the folder in which its record is published.
        hold: leave the record unpublished, for the caller.
        train: runs an attempt and gives the exit code.
    """
    warm_up(cell)

    def look_for_gpus() -> None:
        for place in range(cell.workers // cell.nodes):
            device_of(cell, place)

    def in_one_process() -> None:
        train(Attempt(cell, results, suite.checkpoint_every_seconds, hold))

    def run_rank(
        placement: Placement, statuses: Sequence[RankStatus], began: float, network: Network | None
    ) -> int:
        try:
            if network is not None:
                network.enter(placement.rank // (cell.workers // cell.nodes))
            return rank.run(cell, results, suite, placement, statuses, began, hold, train)
        except (UserError, Interrupted):
            # Its status has the reason already.
            return rank.BAD_INPUT
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            statuses[placement.rank].ends(How.TROUBLE, trouble(error))
            return rank.BAD_INPUT

    def start(published: Callable[[], bool]) -> AttemptEnd:
        if cell.device == "cuda":
            # In a fork of its own: without NVML, torch starts CUDA to find GPUs. After that, forks of this
            # process could not use them.
            found = alone(look_for_gpus, lambda: True)
            if found.reports or found.asked_to_stop:
                return found
        if cell.transport == "inprocess":
            return alone(in_one_process, published)
        began = time.monotonic()
        with _placed(cell) as (network, placements):
            statuses = in_memory([placement.node for placement in placements])
            works = [partial(run_rank, placement, statuses, began, network) for placement in placements]
            asked = _supervise(works, statuses, published)
            return AttemptEnd(reports(statuses), asked)

    return start


@contextmanager
def _placed(cell: Cell) -> Iterator[tuple[Network | None, list[Placement]]]:
    """The emulated network of a cell, or None, and the placement of each worker: there, or on this machine.

    The network vanishes with the last of its ranks. They meet in a file that has no name: forks of this
    process have it open, and no other user can open it.

    Raises:
        UserError: this machine cannot emulate the network.
    """
    network = None
    with ExitStack() as held:
        descriptor = os.memfd_create("thinwire")
        held.callback(os.close, descriptor)
        os.fchmod(descriptor, 0o600)
        meeting = SharedFile(f"/proc/self/fd/{descriptor}", "lo")
        if cell.cluster is not None:
            require_emulable(cell)
            link = cell.cluster.link
            network = Network(cell.nodes, link.rate_bits_per_second, link.latency_seconds)
            held.enter_context(closing(network))
            meeting = replace(meeting, interface=INTERFACE, status_interface=MANAGEMENT)
        here, per_node = socket.gethostname(), cell.workers // cell.nodes
        nodes = [f"node{rank // per_node}" if network else here for rank in range(cell.workers)]
        yield (
            network,
            [
                Placement(rank, cell.workers, rank % per_node, node, "fork", meeting)
                for rank, node in enumerate(nodes)
            ],
        )


def alone(work: Callable[[], object], published: Callable[[], bool]) -> AttemptEnd:
    """Do some work in a single fork, and wait for it; an exception of the work is how the fork ends."""
    (status,) = statuses = in_memory([""])

    def reporting() -> int:
        status.phase("", RUNNING)
        status.doing("works")
        try:
            work()
        except Interrupted as error:
            status.ends(How.INTERRUPTED, str(error.number))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            status.ends(How.TROUBLE, trouble(error))
        return 0

    asked = _supervise([reporting], statuses, published)
    return AttemptEnd([status.read(None)] if status.has_ended() else [], asked)


def _supervise(
    works: Sequence[Callable[[], int]], statuses: Sequence[RankStatus], published: Callable[[], bool]
) -> int:
    """Fork a process for each work, and wait for all; gives the signal that asked for a stop, or 0."""
    alive: dict[int, int] = {}  # the index of each function, by process id
    killed_before = killed_for_memory()
    with stops_forwarded(alive) as asked:
        with stops_held_back():
            for number, work in enumerate(works):
                alive[fork(work)] = number
        _wait(alive, statuses, published, killed_before)
    return asked[-1]


def _wait(
    alive: dict[int, int], statuses: Sequence[RankStatus], published: Callable[[], bool], killed_before: int
) -> None:
    """Wait for all processes; report those that end without a report, and end the others soon after."""
    deadline, killed = None, False
    while alive:
        ended = _ended(alive)
        for place, code in ended:
            if deadline is None:
                # Ranks leave together: one that stays behind cannot go on.
                deadline = time.monotonic() + 2 * GRACE_SECONDS
            if killed or published():
                continue
            if not statuses[place].has_ended():
                statuses[place].ends(*end_of(code, killed_before))
                statuses[place].raise_alarm()
        if deadline is not None and time.monotonic() > deadline:
            killed = True
            for pid in alive:
                os.kill(pid, signal.SIGKILL)
        if not ended:
            time.sleep(_POLL_SECONDS)


def _ended(alive: dict[int, int]) -> list[tuple[int, int]]:
    """Remove the processes that have ended; gives their indices and exit codes, where -N is signal N."""
    ended = []
    for pid in list(alive):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            ended.append((alive.pop(pid), os.waitstatus_to_exitcode(status)))
    return ended


def run_preparation(cell: Cell, results: Path, checkpoint_every_seconds: float) -> Prepared:
    """Let the method of a cell prepare, and publish what it made, or that it failed.

    Raises:
        UserError: a problem outside the preparation must be fixed; nothing is lost.
        Interrupted: a signal asked for a stop.
    """
    made = prepared_folder(results, cell) / PREPARED
    before = stamp(made)
    warm_up(cell)
    ended, asked_to_stop, _ = alone(
        lambda: preparation.prepare(cell, results, checkpoint_every_seconds), lambda: stamp(made) != before
    )
    require_no_trouble(ended)
    diagnosis = diagnose(ended)
    if diagnosis is None:
        return preparation_record.read(made.parent, preparation_record.identity_of(cell, results))
    if asked_to_stop:
        raise Interrupted(asked_to_stop)
    return preparation.publish_failure(cell, results, diagnosis.reason)
