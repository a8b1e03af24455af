"""How the processes of a run ended, and why the run did: which rank, in which phase, and what happened to it.

Each process keeps a status in mapped memory: its phase, what it is doing, and at its end how it ended. The
operating system keeps that memory however the process ends. Where a process could not say how it ended, its
parent does. From all reports `diagnose` finds the one that explains the others. Nothing here needs torch.
"""

import json
import mmap
import shutil
import signal
import struct
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from thinwire.base.files import writing

# The phase in which plug-ins run. Before it the ranks join each other and open their channels.
RUNNING = "runs"
_DOING_BYTES, _END_BYTES = 512, 16384
_BEAT, _BEAT_START = struct.Struct("qq"), _DOING_BYTES + _END_BYTES
_ALARM_PLACE = _BEAT_START + _BEAT.size
_BYTES = _ALARM_PLACE + 1
# Characters of what a process says about its end: with up to six bytes each they fit into its status.
_MOST_TEXT = 2500
_ABORTS = "SIGABRT"


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


# What is said of it, if that is the cause; and was a process lost, so that another attempt may succeed?
_CAUSES = {
    How.DIVERGED: ("{who}: {what}", False),
    How.FAILED: ("{who}: {what}", False),
    How.EXITED: ("{who} ended with exit code {what}, and thinwire did not end it{meanwhile}", False),
    How.DIED: ("{who} was killed by {what}{meanwhile}", True),
    How.HUNG: ("{what}", False),
    How.SILENT: ("{what}", True),
    How.GONE: ("{who} is gone; it last {doing}", True),
    How.ABSENT: ("rank {rank} has not come", True),
    How.LOST: ("{who} lost contact: {what}", True),
}


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


class Diagnosis(NamedTuple):
    """Why a run ended that has published nothing."""

    status: str
    reason: str
    lost: bool  # a process was lost: another attempt may succeed
    hosts: frozenset[str] = frozenset()  # on which processes were lost
    aborted: bool = False  # was it by SIGABRT? Libraries end a process so, too


def diagnose(ends: Sequence[ExitReport]) -> Diagnosis | None:
    """Why a run has ended, naming rank, host and cause; None if no rank has begun, or none has a cause.

    The report that explains most decides, see `How`. When one process is killed, others may read half a
    message and abort, so an abort explains less than other signals.
    """
    if all(end.how is How.ABSENT for end in ends):
        return None
    order = list(How)
    causes = [end for end in ends if end.how in _CAUSES]
    cause = min(causes, key=lambda end: (order.index(end.how), _aborted(end)), default=None)
    if cause is None:
        return None
    sentence, lost = _CAUSES[cause.how]
    meanwhile = f" while it {cause.doing}" if cause.doing else ""
    reason = sentence.format(**cause._asdict(), who=cause.who, meanwhile=meanwhile)
    status = "diverged" if cause.how is How.DIVERGED else "failed"
    if not lost:
        return Diagnosis(status, reason, lost)
    # A rank that is silent does not say so itself, and leaves no report.
    how = How.GONE if cause.how is How.SILENT else cause.how
    alike = [end for end in ends if (end.how, _aborted(end)) == (how, _aborted(cause))]
    return Diagnosis(status, reason, lost, frozenset(end.node for end in alike), _aborted(cause))


def _aborted(end: ExitReport) -> bool:
    return end.how is How.DIED and end.what.startswith(_ABORTS)
