"""Injects a fault at a call of a function of the engine, without the engine's knowledge.

`install` is called in the process of a run before it begins; ranks are its forks. Some faults must be caused
from outside, such as freezing all processes or closing the other end of stdout. For these the room is asked,
and it answers when it has done so. A fault comes once: a file says that it has come, and later attempts have
none.
"""

import importlib
import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from tests.faults import sandbox, suites
from tests.faults.matrix import BETWEEN, NUMBER, PHASES, SIGNALS, Case, folder_of_runs
from thinwire.base.placement import Placement
from thinwire.config.cell import Cell
from thinwire.emulation.network import INTERFACE
from thinwire.launch import slurm_step
from thinwire.train import status

# How long a process waits at most until a signal that was sent to another process reaches it, too.
_HANDED_ON_SECONDS = 60.0
# Bytes that can still be allocated when memory is made scarce.
_LITTLE = 2**22


class Injector:
    """Injects the fault of one case into the processes of its run."""

    def __init__(self, case: Case, results: Path, marker: Path, ask: Callable[[], None]) -> None:
        """Prepare a fault.

        Args:
            case: which fault comes, when, and to which rank.
            results: the results folder of the run.
            marker: a file that says that the fault has come.
            ask: asks the room to do its part, and returns when it has.
        """
        self._case, self._results, self._marker, self._ask = case, results, marker, ask
        self._main = os.getpid()
        self._rank: int | None = None  # None: there is only one process
        self._cell = ""  # of the rank that this process is
        self._calls = 0

    def install(self) -> None:
        """Inject the fault when its phase is reached."""
        where, self._call = PHASES[self._case.phase]
        _wrap(where, self._called)
        _wrap("thinwire.transport.rendezvous:join", self._note_rank)
        _wrap("thinwire.launch.rank:run", self._note_cell)

    def _note_rank(self, arguments: tuple[Any, ...]) -> None:
        (placement,) = (one for one in arguments if isinstance(one, Placement))
        self._rank = placement.rank

    def _note_cell(self, arguments: tuple[Any, ...]) -> None:
        (cell,) = (one for one in arguments if isinstance(one, Cell))
        self._cell = cell.path

    def _called(self, arguments: tuple[Any, ...]) -> None:
        where = [*sys.argv, self._cell, *map(str, arguments)]
        if self._rank not in (None, self._case.rank) or not any(self._case.cell in word for word in where):
            return
        self._calls += 1
        if self._calls == self._call and self._is_due():
            self._strike()

    def _is_due(self) -> bool:
        if self._case.fault.endswith("every time"):
            self._marker.touch()
            return True
        try:
            self._marker.touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def _strike(self) -> None:
        fault = self._case.fault
        first = fault.split()[0]
        if fault in SIGNALS:
            self._ask_for_a_stop(NUMBER[fault])
        elif fault == "lost terminal":
            self._ask_for_a_stop(NUMBER["HUP"])
        elif fault in BETWEEN:
            self._ask_for_a_stop(NUMBER["TERM"])
        elif fault == "KILL parent":
            os.kill(self._main, signal.SIGKILL)
            signal.pause()
        elif fault == "KILL task":
            # The task of Slurm that has forked this rank.
            os.kill(os.getppid(), signal.SIGKILL)
            signal.pause()
        elif first in ("KILL", "SEGV") and fault != "KILL all":
            os.kill(os.getpid(), NUMBER[first])
        elif fault == "STOP":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif fault == "lost link":
            sandbox.set_link(INTERFACE, up=False)
        elif fault == "full disk":
            sandbox.fill(self._results)
        elif fault == "full shm":
            sandbox.fill(sandbox.SHM)
        elif fault == "file size":
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        elif fault == "few files":
            here = len(os.listdir("/proc/self/fd"))
            resource.setrlimit(resource.RLIMIT_NOFILE, (here, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        elif fault == "little memory":
            (pages,) = Path("/proc/self/statm").read_text().split()[:1]
            most = int(pages) * resource.getpagesize() + _LITTLE
            resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
        elif fault == "no partial folder":
            of_runs = folder_of_runs(self._results, self._case.suite, self._case.start)
            shutil.rmtree(of_runs / "partial" / self._case.suite / self._case.cell)
        else:
            self._ask()

    def _ask_for_a_stop(self, number: int) -> None:
        """Return when the signal, which is sent to the process that was started, has come here."""
        if os.getpid() == self._main and self._case.fault != "lost terminal":
            os.kill(self._main, number)
            return
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [number])
        if self._case.fault == "lost terminal":
            self._ask()
        else:
            os.kill(self._main, number)
        if signal.sigtimedwait([number], _HANDED_ON_SECONDS) is not None:
            os.kill(os.getpid(), number)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def settle(hasty: bool) -> None:
    """Set what all runs of all cases share: how often they save, and how soon a rank is missed."""
    status.MOST_STEPS_BETWEEN = suites.STEPS_BETWEEN_LOOKS
    if hasty:
        hang = {"hang_seconds": suites.HASTY_SECONDS}
        # Longer than the others take to notice, as it is outside the tests.
        slurm_step.WAIT_SECONDS = 2 * suites.HASTY_SECONDS
        _replace("thinwire.config.suite:load", lambda load: lambda name: load(name).model_copy(update=hang))


def _wrap(where: str, before: Callable[[tuple[Any, ...]], None]) -> None:
    """Call `before` with the arguments of every call of a function, first."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def wrapped(*arguments: Any, **named: Any) -> Any:
            before((*arguments, *named.values()))
            return original(*arguments, **named)

        return wrapped

    _replace(where, make)


def _replace(where: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replace a function by what `make` makes of it, in every module that imported it."""
    module, _, path = where.partition(":")
    *owners, name = path.split(".")
    owner: Any = importlib.import_module(module)
    for part in owners:
        owner = getattr(owner, part)
    original = getattr(owner, name)
    made = make(original)
    setattr(owner, name, made)
    if owners:
        return
    for other in [module for key, module in sys.modules.items() if key.startswith("thinwire.")]:
        for key, value in list(vars(other).items()):
            if value is original:
                setattr(other, key, made)
