"""The heartbeat of a rank: a thread that shows that its process lives, and learns when the run must end.

Ranks of one machine beat in memory that they share, and each checks the beats of all. Other ranks beat in the
store in which they have joined, and rank 0 checks them. Who finds that a rank is silent, or that the run
hangs, raises an alarm; so does a rank that fails. On an alarm every rank records how it ends, writes the
stacks of its threads to the log, and ends.
"""

import faulthandler
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock, Thread
from typing import NamedTuple, Never

from thinwire.base.files import writing
from thinwire.base.nvidia_smi import ASKING
from thinwire.base.placement import Address, Placement
from thinwire.launch.run_processes import How, RankStatus
from thinwire.transport.rendezvous import ConnectionLost, store_of, within

# How long the ranks have to find each other. A node that has not read a CUDA build of torch yet needs minutes
# to import it. If `hang_seconds` of the suite is less, it holds here too.
RENDEZVOUS_SECONDS = 600.0
# How long a rank that ends waits for the others to end. After twice as long its parent kills it.
GRACE_SECONDS = 3.0
# Between two beats of a rank.
BEAT_SECONDS = 0.5
# A process without a beat for so long is stopped, or its host is gone.
_SILENT_SECONDS = 15.0
# A rank that has not checked the others for so long was stopped. Then it ignores what it missed meanwhile.
_PAUSED_SECONDS = 5.0
# The exit code of a rank that cannot go on.
CANNOT_GO_ON = 3
# What a rank does that waits for the machine, and not for a method, begins so; and what to see about it.
_OF_THE_MACHINE = {
    "reads": "whether the file system answers",
    "saves": "whether the file system answers",
    ASKING: "whether nvidia-smi answers",
}

_ALARM = "alarm"  # a key of the store
End = tuple[How, str]


class Beat(NamedTuple):
    """The heartbeat of a rank."""

    rank: int
    node: str
    number: int = 0  # rises with every beat, as long as the process lives
    moves: int = 0  # rises with every action of its worker
    doing: str = ""


class SharedBeats:
    """The heartbeats of ranks of one machine, in their statuses; every rank checks them."""

    def __init__(self, own: int, statuses: Sequence[RankStatus]) -> None:
        self._own, self._statuses = own, statuses

    def send(self, beat: Beat) -> None:
        self._statuses[self._own].beat(beat.number, beat.moves)

    def last(self) -> list[Beat]:
        """The last beat of every rank; number 0 for a rank that has sent none."""
        reports = [status.read(rank) for rank, status in enumerate(self._statuses)]
        return [
            Beat(rank, about.node, *status.last_beat(), about.doing)
            for rank, (status, about) in enumerate(zip(self._statuses, reports))
        ]

    def raise_alarm(self) -> None:
        self._statuses[self._own].raise_alarm()

    def alarm(self) -> bool:
        """Has a rank, or the parent of all, raised the alarm?"""
        return any(status.has_raised_alarm() for status in self._statuses)


class StoredBeats:
    """The heartbeats of ranks that meet in a store of torch; rank 0 checks them.

    All methods raise RuntimeErrors if rank 0 is gone, and TimeoutErrors if it does not answer in time.
    """

    def __init__(self, placement: Placement, address: Address, timeout_seconds: float) -> None:
        self._workers, self._seconds = placement.workers, timeout_seconds
        # A connection of its own, because a request that waits holds up all later ones.
        self._store = store_of(placement, address, timeout_seconds)

    def send(self, beat: Beat) -> None:
        within(self._seconds, lambda: self._store.set(_key(beat.rank), json.dumps(beat)))

    def last(self) -> list[Beat]:
        """The last beat of every rank; number 0 for a rank that has sent none."""
        return within(self._seconds, lambda: [self._last_of(rank) for rank in range(self._workers)])

    def _last_of(self, rank: int) -> Beat:
        if not self._store.check([_key(rank)]):
            return Beat(rank, "its node", doing="begins")
        return Beat(*json.loads(self._store.get(_key(rank))))

    def raise_alarm(self) -> None:
        within(self._seconds, lambda: self._store.set(_ALARM, ""))

    def alarm(self) -> bool:
        """Has a rank raised the alarm?"""
        return within(self._seconds, lambda: self._store.check([_ALARM]))


def _key(rank: int) -> str:
    return f"beat/{rank}"


@dataclass
class HangDetector:
    """Remembers when each rank last sent a new beat, and when any worker last made progress."""

    silent_seconds: float  # a rank is lost if it sends no new beat for so long
    hang_seconds: float  # the run hangs if no worker makes progress for so long
    paused_seconds: float  # if `check` was not called for so long, this process was stopped itself
    _checked_at: float = 0.0
    # For each rank, the number of its last new beat, and when it arrived.
    _last_beats: dict[int, tuple[int, float]] = field(default_factory=dict)
    # The moves of all ranks when one of them last changed, and when that was.
    _last_moves: tuple[list[int], float] = ([], 0.0)

    def check(self, beats: Sequence[Beat], now: float) -> End | None:
        """How the run must be ended, and the sentence about it; None if it goes on."""
        paused = now - self._checked_at > self.paused_seconds
        self._checked_at = now
        if paused:
            # The other ranks may have been stopped as well, so all waiting times begin anew.
            self._last_beats = {rank: (number, now) for rank, (number, _) in self._last_beats.items()}
            self._last_moves = (self._last_moves[0], now)
        for beat in beats:
            if self._last_beats.get(beat.rank, (None,))[0] != beat.number:
                self._last_beats[beat.rank] = (beat.number, now)
        moves = [beat.moves for beat in beats]
        if moves != self._last_moves[0]:
            self._last_moves = (moves, now)
        silent = [beat for beat in beats if now - self._last_beats[beat.rank][1] > self.silent_seconds]
        if silent:
            names = ", ".join(f"rank {beat.rank} on {beat.node}" for beat in silent)
            return How.SILENT, f"{names} has not been heard of for {self.silent_seconds:.0f} s"
        if beats and now - self._last_moves[1] > self.hang_seconds:
            return _hang(beats, self.hang_seconds)
        return None


def _hang(beats: Sequence[Beat], seconds: float) -> End:
    """Describe which ranks block a run: those that do not wait, if any; otherwise all.

    A disk or a driver that blocks the run is a trouble outside it, and comes with what to do.
    """
    busy = [beat for beat in beats if not beat.doing.startswith("waits")]
    blocking = busy or beats
    described = "; ".join(f"rank {beat.rank} on {beat.node} {beat.doing}" for beat in blocking)
    others = ", and the others wait" if 0 < len(busy) < len(beats) else ""
    text = f"nothing has moved for {seconds:.0f} s: {described}{others}"
    seen = [
        see for beat in blocking for begin, see in _OF_THE_MACHINE.items() if beat.doing.startswith(begin)
    ]
    if len(seen) < len(blocking):
        return How.HUNG, text
    advice = f"see {seen[0]}, or raise hang_seconds of the suite, and start again"
    return How.TROUBLE, f"{text}: {advice}; a run goes on from its last checkpoint"


class Heartbeat:
    """The heartbeat of one rank."""

    def __init__(
        self, placement: Placement, statuses: Sequence[RankStatus], log: Path, hang_seconds: float
    ) -> None:
        """Start the thread of a rank that has joined the others.

        Args:
            placement: of this rank.
            statuses: of all ranks.
            log: takes the stacks.
            hang_seconds: the run is ended if no worker makes progress for so long.

        Raises:
            UserError: the log cannot be written, or rank 0 cannot be reached.
        """
        self._placement, self._statuses, self._log = placement, statuses, log
        self._status = statuses[placement.rank]
        self._silent_seconds = min(_SILENT_SECONDS, hang_seconds)
        self._hang_detector = HangDetector(
            self._silent_seconds, hang_seconds, min(_PAUSED_SECONDS, hang_seconds)
        )
        self._doing, self._moves = "begins", 0
        # For fatal signals, after which Python code cannot run.
        with writing(log):
            self._fatal = log.open("a")
        faulthandler.enable(self._fatal)
        self._ending, self._leaving, self._over = Lock(), Event(), Event()
        meeting = placement.meeting
        self._beats: SharedBeats | StoredBeats = (
            StoredBeats(placement, meeting, self._silent_seconds)
            if isinstance(meeting, Address)
            else SharedBeats(placement.rank, statuses)
        )
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def doing(self, what: str) -> None:
        """Record what the worker is about to do."""
        self._doing = what
        self._moves += 1
        self._status.doing(what)

    def phase(self, name: str) -> None:
        """Record that a phase of the run begins, whose name is a verb phrase."""
        self._status.phase(self._placement.node, name)
        self.doing(name)

    def report(self, how: How, what: str = "") -> None:
        self._status.ends(how, what)

    def leave(self, leave_group: Callable[[], None]) -> None:
        """Leave together with all other ranks; the thread still notices a rank that stays behind.

        The result is complete, even if a rank is lost from now on.
        """
        self._leaving.set()
        with suppress(ConnectionLost):
            leave_group()
        self._over.set()
        self._thread.join()

    def end(self, how: How, what: str) -> Never:
        """Raise the alarm, record how this rank ends, and end its process."""
        if self._placement.launcher != "fork":  # otherwise the parent prints it
            print(f"thinwire: {self._placement.describe()}: {what}", file=sys.stderr)
        # If two threads come here, the second one waits until the first has ended the process.
        self._ending.acquire()
        self.report(how, what)
        stacks = map(traceback.format_stack, sys._current_frames().values())
        with suppress(OSError), self._log.open("a") as log:
            about = f"stacks of {self._placement.describe()}:"
            log.write("\n".join([about, *map("".join, stacks)]))
        with suppress(RuntimeError, TimeoutError):
            self._beats.raise_alarm()
        # Rank 0 keeps the store, and a parent may need all reports.
        deadline = time.monotonic() + GRACE_SECONDS
        while time.monotonic() < deadline and not all(status.has_ended() for status in self._statuses):
            time.sleep(0.05)
        os._exit(CANNOT_GO_ON)

    def _run(self) -> None:
        number, unanswered = 0, False
        while True:
            number += 1
            began = time.monotonic()
            try:
                end = self._beat(number)
            except (RuntimeError, TimeoutError):
                if self._leaving.is_set():
                    return
                # If this process was stopped, its call has timed out for that alone: it asks once more.
                late = time.monotonic() - began >= self._silent_seconds
                if unanswered or not late:
                    self.end(How.LOST, "rank 0 does not answer any more")
                unanswered = True
                continue
            unanswered = False
            if end is not None:
                self.end(*end)
            if self._over.wait(BEAT_SECONDS):
                return

    def _beat(self, number: int) -> End | None:
        """Send a beat; gives how the run must be ended, or None.

        Raises:
            RuntimeError: the store is gone.
            TimeoutError: it does not answer.
        """
        own = Beat(self._placement.rank, self._placement.node, number, self._moves, self._doing)
        self._beats.send(own)
        if self._beats.alarm():
            return How.FOLLOWED, "another rank has ended"
        if own.rank == 0 or isinstance(self._beats, SharedBeats):
            return self._hang_detector.check(self._beats.last(), time.monotonic())
        return None
