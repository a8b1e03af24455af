"""The processes of a run: how forks begin, and what each process says of itself.

A fork is killed when its parent ends. What runs need, the parent imports before, so that they begin at once.

Each process keeps a status in mapped memory: its phase, what it is doing, and at its end how it ended. The
operating system keeps that memory however the process ends. Where a process could not say how it ended, its
parent does. Nothing here needs torch, except `import_for_runs`.
"""

import ctypes
import json
import mmap
import os
import shutil
import signal
import struct
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from thinwire.base.files import writing
from thinwire.base.signals import default_stops, heeding_stops, interrupts_ending_at_once

_PR_SET_PDEATHSIG = 1

# The phase in which plug-ins run. Before it the ranks join each other and open their channels.
RUNNING = "runs"
_DOING_BYTES, _END_BYTES = 512, 16384
_BEAT, _BEAT_START = struct.Struct("qq"), _DOING_BYTES + _END_BYTES
_ALARM_PLACE = _BEAT_START + _BEAT.size
_BYTES = _ALARM_PLACE + 1
# Characters of what a process says about its end: with up to six bytes each they fit into its status.
_MOST_TEXT = 2500
_ABORTS = "SIGABRT"


def fork(work: Callable[[], int]) -> int:
    """Do some work in a fork, which exits with the code that `work` gives; returns its process id."""
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        # In a process group of its own: a Ctrl-C in the terminal reaches the parent, which forwards it once.
        os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        default_stops()
        if os.getppid() == parent:
            code = work()
    except KeyboardInterrupt:
        # Ends by the signal, which every parent recognises, and not with an exit code.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


@contextmanager
def stops_forwarded(pids: Iterable[int]) -> Iterator[list[int]]:
    """Forward each signal that asks for a stop to these processes; gives a list whose end is it, or 0."""
    asked = [0]

    def forward(number: int) -> None:
        asked.append(number)
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    with heeding_stops(forward):
        yield asked


def import_for_runs() -> None:
    """Import what all runs need, before the forks begin; plug-ins are not imported."""
    # With this, the search for GPUs does not initialise CUDA, which forks could not use afterwards.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    with interrupts_ending_at_once():
        import pyarrow
        import pyarrow.parquet
        import torch

        from thinwire.records.provenance import packages

    torch.set_num_threads(1)
    # With their first optimizer and their first table, torch and pyarrow import more.
    torch.optim.SGD([torch.zeros(1)])
    pyarrow.parquet.write_table(pyarrow.table({"number": [0]}), pyarrow.BufferOutputStream())
    packages()


class How(StrEnum):
    """How a process ended; those that explain most about the end of a run come first."""

    TROUBLE = "trouble"  # something outside the run, which a person can fix
    DIVERGED = "diverged"  # a loss or a weight is no longer finite
    FAILED = "failed"  # by an error of the method or the model
    EXITED = "exited"  # something other than thinwire ended it, with an exit code
    DIED = "died"  # a signal killed it
    HUNG = "hung"  # the run made no progress, although all ranks lived
    SILENT = "silent"  # ranks sent no heartbeat any more
    GONE = "gone"  # it left no report
    ABSENT = "absent"  # it has not even begun
    LOST = "lost"  # it lost its connection to the others
    INTERRUPTED = "interrupted"  # a signal asked it to stop, and its state is saved
    FOLLOWED = "followed"  # it ended because another one had


class ExitReport(NamedTuple):
    """How one process ended."""

    how: How
    what: str = ""  # more about it: a reason, a signal, an exit code
    rank: int | None = None  # None: all workers were in this process
    node: str = ""
    phase: str = RUNNING  # of the run; empty: the process has not begun
    doing: str = ""  # what it did last, as a verb phrase

    @property
    def who(self) -> str:
        return "the process" if self.rank is None else f"rank {self.rank} on {self.node}"

    @property
    def aborted(self) -> bool:
        """Did it end by SIGABRT?"""
        return self.how is How.DIED and self.what.startswith(_ABORTS)


class RankStatus:
    """The status of a process, which others can read while it runs and when it has ended."""

    def __init__(self, mapped: mmap.mmap, node: str = "") -> None:
        self._mapped = mapped
        self._node, self._phase = node, ""

    def phase(self, node: str, name: str) -> None:
        """Record that a phase of the run begins, whose name is a verb phrase, and on which node this is."""
        self._node, self._phase = node, name
        self.doing(name)

    def doing(self, what: str) -> None:
        """Record what the process is about to do; it takes a microsecond."""
        text = f"{self._node}\n{self._phase}\n{what}".encode()
        self._mapped[:_DOING_BYTES] = text.ljust(_DOING_BYTES)[:_DOING_BYTES]

    def beat(self, number: int, moves: int) -> None:
        """Record a heartbeat: its number, and how often the process has acted until then."""
        _BEAT.pack_into(self._mapped, _BEAT_START, number, moves)

    def last_beat(self) -> tuple[int, int]:
        """The last heartbeat: its number and the moves; zeros if there is none."""
        number, moves = _BEAT.unpack_from(self._mapped, _BEAT_START)
        return number, moves

    def raise_alarm(self) -> None:
        """Let all ranks that share this memory know that the run must end."""
        self._mapped[_ALARM_PLACE] = 1

    def has_raised_alarm(self) -> bool:
        return bool(self._mapped[_ALARM_PLACE])

    def ends(self, how: How, what: str = "") -> None:
        """Record how the process ends."""
        text = json.dumps([how, what[:_MOST_TEXT]], ensure_ascii=False).encode(errors="replace")
        self._mapped[_DOING_BYTES:_BEAT_START] = text.ljust(_END_BYTES)[:_END_BYTES]

    def has_ended(self) -> bool:
        """Has it been recorded how the process ends?"""
        return self._end() is not None

    def read(self, rank: int | None) -> ExitReport:
        """How the process has ended."""
        about = self._mapped[:_DOING_BYTES].decode(errors="replace").strip("\0 ")
        node, phase, doing = [*about.split("\n", 2), "", ""][:3]
        how, what = self._end() or (How.GONE if phase else How.ABSENT, "")
        return ExitReport(How(how), what, rank, node or self._node, phase, doing)

    def _end(self) -> tuple[str, str] | None:
        """How the process ended, and more about it; None if it says nothing, or was killed meanwhile."""
        with suppress(ValueError):
            how, what = json.loads(self._mapped[_DOING_BYTES:_BEAT_START].strip(b"\0 "))
            return how, what
        return None


def in_memory(nodes: Sequence[str]) -> list[RankStatus]:
    """A status for the rank on each of these nodes, in memory that this process shares with its forks."""
    return [RankStatus(mmap.mmap(-1, _BYTES), node) for node in nodes]


def make_files(folder: Path, ranks: int) -> None:
    """Make the files for the status of ranks that have no parent in common; earlier ones are removed.

    Raises:
        CannotWrite: there is no room for them.
    """
    with writing(folder):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for rank in range(ranks):
            # Written in full, so that a full disk raises an error here. Later it would kill a rank.
            (folder / f"rank{rank}").write_bytes(b" " * _BYTES)


def in_files(folder: Path, ranks: int) -> list[RankStatus]:
    """The status of each rank, in files that all ranks see; CannotWrite is raised if they are missing."""
    statuses = []
    with writing(folder):
        for rank in range(ranks):
            with (folder / f"rank{rank}").open("r+b") as file:
                statuses.append(RankStatus(mmap.mmap(file.fileno(), _BYTES)))
    return statuses


def reports(statuses: Sequence[RankStatus]) -> list[ExitReport]:
    """How each rank has ended."""
    return [status.read(rank) for rank, status in enumerate(statuses)]


def killed_for_memory() -> int:
    """How many processes the kernel has killed because memory ran out; 0 if it does not say."""
    with suppress(OSError, ValueError):
        words = Path("/proc/vmstat").read_text().split()
        return int(words[words.index("oom_kill") + 1])
    return 0


def end_of(code: int, killed_before: int) -> tuple[How, str]:
    """How a process has ended that did not say so itself, but with this code: -N if signal N killed it.

    `killed_before` is what `killed_for_memory` gave before it began.
    """
    if code >= 0:
        return How.EXITED, str(code)
    name = signal.Signals(-code).name
    if name == "SIGKILL" and killed_for_memory() > killed_before:
        name += ", as memory ran out on its machine,"
    if name == _ABORTS:
        name += " (gloo aborts if calls differ in size; thinwire check --processes looks for such)"
    return How.DIED, name
