"""Each rank's heart: a thread that says that its process lives, and hears when the run must end.

Beats go through the store in which the ranks have met, and rank 0 judges them. It raises the alarm when a
rank is silent or nothing moves; a rank that fails raises it for itself. Then every rank leaves its exit
report and its stacks, and ends.
"""

import faulthandler
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Never

from thinwire.files import writing
from thinwire.launch import exit_report
from thinwire.launch.exit_report import ExitReport
from thinwire.launch.flight_recorder import FlightRecorder
from thinwire.launch.hang_detection import Beat, HangDetector
from thinwire.transport.rendezvous import Placement, store_of

BEAT_SECONDS = 0.5
# A process that has not beaten for so long is stopped, or its host is gone.
SILENT_SECONDS = 15.0
# Who has not beaten itself for so long was stopped: no rank is judged by what it did meanwhile.
PAUSED_SECONDS = 5.0
# How long a rank that ends waits for the others to leave their reports.
GRACE_SECONDS = 3.0
ALARM = "alarm"
# With this code a rank ends that cannot go on.
CANNOT_GO_ON = 3


class Heartbeat:
    """One rank's."""

    def __init__(
        self, placement: Placement, recorders: Sequence[FlightRecorder], log: Path, hang_seconds: float
    ) -> None:
        """Begin to beat.

        Args:
            placement: of this rank, which has joined the others.
            recorders: of all ranks.
            log: for stacks.
            hang_seconds: a run in which no rank has moved for so long is ended.

        Raises:
            UserError: the log cannot be written, or rank 0 cannot be reached.
        """
        self._placement, self._recorders, self._log = placement, recorders, log
        self._recorder = recorders[placement.rank]
        self._silent_seconds = min(SILENT_SECONDS, hang_seconds)
        self._hang_detector = HangDetector(
            self._silent_seconds, hang_seconds, min(PAUSED_SECONDS, hang_seconds)
        )
        self._doing, self._moves = "begins", 0
        # For signals after which no Python runs any more.
        with writing(log):
            self._fatal = log.open("a")
        faulthandler.enable(self._fatal)
        self._ending, self._leaving, self._over = Lock(), Event(), Event()
        self._store = store_of(placement, self._silent_seconds)
        self._thread = Thread(target=self._live, daemon=True)
        self._thread.start()

    def doing(self, what: str) -> None:
        """The worker tells what it is about to do."""
        self._doing = what
        self._moves += 1
        self._recorder.doing(what)

    def called(self, channel: str, number: int, words: str) -> None:
        """The worker tells of a call on one of its channels."""
        self._recorder.called(channel, number, words)

    def phase(self, name: str) -> None:
        """A phase of the run begins."""
        self._recorder.phase(self._placement.node, name)

    def report(self, **what: Any) -> None:
        """Leave the exit report of this rank; `what` are fields of `ExitReport`."""
        report = ExitReport(rank=self._placement.rank, host=self._placement.node, **what)
        exit_report.write(self._recorder, report)

    def leave(self) -> None:
        """The run is over, and rank 0 may be gone; a rank that does not leave is still missed."""
        self._leaving.set()

    def over(self) -> None:
        """Stop watching: all ranks have left."""
        self._over.set()
        self._thread.join()

    def end(self, **what: Any) -> Never:
        """Raise the alarm, leave the exit report and end this process; `what` are fields of `ExitReport`."""
        if self._placement.launcher != "fork":  # else it is said by the parent
            told = next((text for text in what.values() if text), "another rank has ended")
            print(f"thinwire: {self._placement.describe()}: {told}", file=sys.stderr)
        # Of two threads that come here the second waits until the first has ended the process.
        self._ending.acquire()
        self.report(**what)
        with suppress(OSError), self._log.open("a") as log:
            log.write(f"stacks of {self._placement.describe()}:\n{_stacks()}")
        with suppress(RuntimeError):
            self._store.set(ALARM, "")
        self._wait_for_the_others()
        os._exit(CANNOT_GO_ON)

    def _live(self) -> None:
        number, unanswered = 0, False
        while True:
            number += 1
            began = time.monotonic()
            try:
                ended = self._beat(number)
            except RuntimeError:
                if self._leaving.is_set():
                    return
                # Who was stopped for long finds that its call has run out of time, and asks once more.
                late = time.monotonic() - began >= self._silent_seconds
                if unanswered or not late:
                    self.end(lost=f"rank 0 on {self._placement.host} does not answer any more")
                unanswered = True
                continue
            unanswered = False
            if ended is not None:
                self.end(**ended)
            if self._over.wait(BEAT_SECONDS):
                return

    def _beat(self, number: int) -> dict[str, str] | None:
        """Tell that this rank lives; gives why the run must be ended, as fields of a report, or None.

        Raises:
            RuntimeError: the store does not answer.
        """
        own = Beat(self._placement.rank, self._placement.node, number, self._moves, self._doing)
        self._store.set(_key(own.rank), json.dumps(own))
        if self._store.check([ALARM]):
            return {}
        return (self._hang_detector.check(self._heard(), time.monotonic()) if own.rank == 0 else {}) or None

    def _heard(self) -> list[Beat]:
        """The last beat of every rank; of one that has not beaten yet, none."""
        beats = []
        for rank in range(self._placement.workers):
            there = self._store.check([_key(rank)])
            said = json.loads(self._store.get(_key(rank))) if there else (rank, "its node", 0, 0, "begins")
            beats.append(Beat(*said))
        return beats

    def _wait_for_the_others(self) -> None:
        """Rank 0 keeps the store, and a parent may wait for the reports."""
        deadline = time.monotonic() + GRACE_SECONDS
        while time.monotonic() < deadline:
            if all(map(exit_report.is_left, self._recorders)):
                return
            time.sleep(0.05)


def _key(rank: int) -> str:
    return f"beat/{rank}"


def _stacks() -> str:
    """What all threads of this process are at."""
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        return file.read()
