"""The processes of a run on this machine, as forks of this one.

This process imports what they need, and a fork then takes milliseconds. It does not compute: it waits, hands
on signals, and sees to it that nobody is left behind. Its forks die with it, however it ends.
"""

import ctypes
import os
import secrets
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from thinwire import plugins
from thinwire.config.cell import Cell
from thinwire.config.suite import load
from thinwire.errors import UserError
from thinwire.launch import exit_report, flight_recorder, rank
from thinwire.launch.exit_report import RUNNING, ExitReport
from thinwire.launch.flight_recorder import FlightRecorder
from thinwire.launch.heartbeat import ALARM, GRACE_SECONDS
from thinwire.launch.retry import AttemptEnd, Start
from thinwire.resources import trouble
from thinwire.stop_signals import default_stops, heeding_stops, stops_held_back
from thinwire.train.cell_task import device_of
from thinwire.train.run_cell import Attempt, Interrupted
from thinwire.transport import listening
from thinwire.transport.rendezvous import Placement, store_of

_POLL_SECONDS = 0.02
_PR_SET_PDEATHSIG = 1


def warm_up(cell: Cell) -> None:
    """Import, before the forks, what every one of them would import."""
    # So that looking for GPUs does not begin what a fork cannot go on with.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    import torch

    torch.set_num_threads(1)
    # Optimizers import it at their first step.
    import torch._dynamo

    for kind, name in (("method", cell.method.use), ("model", cell.model.use), ("dataset", cell.data.use)):
        # A plug-in that is broken fails in the forks, where that is a result.
        with suppress(plugins.PluginError):
            plugins.get(kind, name).load()


def starter(cell: Cell, results: Path, hold: bool, train: Callable[[Attempt], int]) -> Start:
    """What starts the processes of a run on this machine: one for all workers, or one for each.

    Args:
        cell: what is run; the caller holds its lock.
        results: where it leaves its record.
        hold: leave the record aside.
        train: runs an attempt and gives the exit code.

    Raises:
        UserError: none of them could begin.
    """
    suite = load(cell.suite)
    warm_up(cell)
    for place in range(cell.workers // cell.nodes):
        device_of(cell, place)

    def in_one_process() -> None:
        train(Attempt(cell, results, suite.checkpoint_every_seconds, hold))

    def as_rank(placement: Placement, recorders: Sequence[FlightRecorder], began: float) -> int:
        try:
            return rank.run(cell, results, suite, placement, recorders, began, hold, train)
        except (UserError, Interrupted):
            # The report tells it already.
            return rank.BAD_INPUT
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            about = ExitReport(rank=placement.rank, host=placement.node, trouble=trouble(error))
            exit_report.write(recorders[placement.rank], about)
            return rank.BAD_INPUT

    def start(published: Callable[[], bool]) -> AttemptEnd:
        if cell.transport == "inprocess":
            return alone(in_one_process, published)
        began = time.monotonic()
        return ranks(_placements(cell), lambda here, all_: as_rank(here, all_, began), published)

    return start


def ranks(
    placements: Sequence[Placement],
    work: Callable[[Placement, Sequence[FlightRecorder]], int],
    published: Callable[[], bool],
) -> AttemptEnd:
    """Start a rank at each placement, and wait for all of them.

    Args:
        placements: of the ranks.
        work: what each does, given the recorders of all; gives its exit code.
        published: has the run its record?
    """
    recorders = flight_recorder.in_memory(len(placements))
    works = [lambda here=placement: work(here, recorders) for placement in placements]
    alive: dict[int, int] = {}

    def wait() -> None:
        for placement in placements:
            if placement.listener is not None:
                # Rank 0's now: when it ends, nobody listens.
                placement.listener.close()
        _wait(alive, placements, recorders, published)

    asked = _supervise(works, alive, wait)
    return AttemptEnd(exit_report.read(recorders), asked)


def alone(work: Callable[[], object], published: Callable[[], bool]) -> AttemptEnd:
    """Do some work in one fork, and wait for it.

    Args:
        work: what is done; an exception that it raises is reported.
        published: has it left what it was to make?
    """
    (recorder,) = flight_recorder.in_memory(1)

    def reporting() -> int:
        recorder.phase("", RUNNING)
        recorder.doing("works")
        try:
            work()
        except Interrupted as error:
            exit_report.write(recorder, ExitReport(interrupted=error.number))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            exit_report.write(recorder, ExitReport(trouble=trouble(error)))
        return 0

    alive: dict[int, int] = {}

    def wait() -> None:
        (pid,) = alive
        _, status = os.waitpid(pid, 0)
        if not exit_report.is_left(recorder) and not published():
            exit_report.write(recorder, _unreported(ExitReport(), os.waitstatus_to_exitcode(status)))

    asked = _supervise([reporting], alive, wait)
    return AttemptEnd([report for report in exit_report.read([recorder]) if not report.vanished], asked)


def _supervise(works: Sequence[Callable[[], int]], alive: dict[int, int], wait: Callable[[], None]) -> int:
    """Fork once for each work, and wait; gives the signal that has asked this process to stop, or 0.

    `alive` holds the numbers of the works by process; `wait` takes out those that have ended.
    """
    asked = 0

    def hand_on(number: int) -> None:
        nonlocal asked
        asked = number
        for pid in alive:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    with heeding_stops(hand_on):
        with stops_held_back():
            for number, work in enumerate(works):
                alive[_fork(work)] = number
        wait()
    return asked


def _unreported(report: ExitReport, code: int) -> ExitReport:
    """The report of a process that has left none, and ended with this exit code."""
    if code < 0:
        return report.model_copy(update={"died": signal.Signals(-code).name})
    return report.model_copy(update={"exited": code})


def _fork(work: Callable[[], int]) -> int:
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        # A group of its own: a Ctrl-C in the terminal comes to the parent, which hands it on once.
        os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        default_stops()
        if os.getppid() == parent:
            code = work()
    except KeyboardInterrupt:
        # An end that every parent knows, and no exit code.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _wait(
    alive: dict[int, int],
    placements: Sequence[Placement],
    recorders: Sequence[FlightRecorder],
    published: Callable[[], bool],
) -> None:
    """Wait for all ranks; report those that have not done so themselves, and end the others soon after."""
    deadline, killed = None, False
    while alive:
        ended = _ended(alive)
        for place, code in ended:
            if deadline is None:
                # They leave together: whoever stays behind does not go on.
                deadline = time.monotonic() + 2 * GRACE_SECONDS
            if killed or published():
                continue
            if not exit_report.is_left(recorders[place]):
                known = ExitReport(rank=place, host=placements[place].node)
                exit_report.write(recorders[place], _unreported(known, code))
                _raise_alarm(placements[place])
        if deadline is not None and time.monotonic() > deadline:
            killed = True
            for pid in alive:
                os.kill(pid, signal.SIGKILL)
        if not ended:
            time.sleep(_POLL_SECONDS)


def _ended(alive: dict[int, int]) -> list[tuple[int, int]]:
    """Take out the processes that have ended: their numbers, and their exit codes; minus N is signal N."""
    ended = []
    for pid in list(alive):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            ended.append((alive.pop(pid), os.waitstatus_to_exitcode(status)))
    return ended


def _raise_alarm(ended: Placement) -> None:
    """Call the other ranks to an end, where they have met."""
    with suppress(UserError, RuntimeError):
        store_of(ended, timeout_seconds=1).set(ALARM, "")


def _placements(cell: Cell) -> list[Placement]:
    """A rank for each worker of a cell, all on this machine."""
    here, secret, listener = socket.gethostname(), secrets.token_bytes(), listening.on_loopback()
    host, port, *_ = listener.getsockname()
    mates = cell.workers // cell.nodes
    return [
        Placement(rank, cell.workers, rank % mates, here, host, port, "fork", secret, listener)
        for rank in range(cell.workers)
    ]
