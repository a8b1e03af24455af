"""The heartbeat of a rank: a thread that shows that its process lives, and learns when the run must end.

Beats go through the store in which the ranks have joined, and rank 0 checks them. It raises an alarm when a
rank is silent or the run hangs. A rank that fails raises the alarm itself. On an alarm every rank writes its
exit report and the stacks of its threads, and ends.
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
from thinwire.launch.waiting_limits import BEAT_SECONDS, GRACE_SECONDS, PAUSED_SECONDS, SILENT_SECONDS
from thinwire.transport.rank_placement import Placement
from thinwire.transport.rendezvous import store_of

ALARM = "alarm"
# The exit code of a rank that cannot go on.
CANNOT_GO_ON = 3


class Heartbeat:
    """The heartbeat of one rank."""

    def __init__(
        self, placement: Placement, recorders: Sequence[FlightRecorder], log: Path, hang_seconds: float
    ) -> None:
        """Start the thread.

        Args:
            placement: of this rank; it has joined the others.
            recorders: of all ranks.
            log: takes the stacks.
            hang_seconds: the run is ended if no worker makes progress for so long.

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
        # For fatal signals, after which Python code cannot run.
        with writing(log):
            self._fatal = log.open("a")
        faulthandler.enable(self._fatal)
        self._ending, self._leaving, self._over = Lock(), Event(), Event()
        self._store = store_of(placement, self._silent_seconds)
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def doing(self, what: str) -> None:
        """Record what the worker is about to do."""
        self._doing = what
        self._moves += 1
        self._recorder.doing(what)

    def called(self, channel: str, number: int, description: str) -> None:
        """Record a call of the worker on one of its channels."""
        self._recorder.called(channel, number, description)

    def phase(self, name: str) -> None:
        """Record that a phase of the run begins."""
        self._recorder.phase(self._placement.node, name)

    def report(self, **fields: Any) -> None:
        """Write the exit report of this rank; `fields` are those of `ExitReport`."""
        report = ExitReport(rank=self._placement.rank, host=self._placement.node, **fields)
        exit_report.write(self._recorder, report)

    def leave(self) -> None:
        """The run is over, so rank 0 may leave; the thread still notices a rank that stays behind."""
        self._leaving.set()

    def over(self) -> None:
        """Stop the thread, because all ranks have left."""
        self._over.set()
        self._thread.join()

    def end(self, **fields: Any) -> Never:
        """Raise the alarm, write the exit report and end this process; `fields` are those of `ExitReport`."""
        if self._placement.launcher != "fork":  # otherwise the parent prints it
            cause = next((text for text in fields.values() if text), "another rank has ended")
            print(f"thinwire: {self._placement.describe()}: {cause}", file=sys.stderr)
        # If two threads come here, the second one waits until the first has ended the process.
        self._ending.acquire()
        self.report(**fields)
        with suppress(OSError), self._log.open("a") as log:
            log.write(f"stacks of {self._placement.describe()}:\n{_stacks()}")
        with suppress(RuntimeError):
            self._store.set(ALARM, "")
        self._wait_for_the_others()
        os._exit(CANNOT_GO_ON)

    def _run(self) -> None:
        number, unanswered = 0, False
        while True:
            number += 1
            began = time.monotonic()
            try:
                ended = self._beat(number)
            except RuntimeError:
                if self._leaving.is_set():
                    return
                # If this process was stopped, its call has timed out for that alone: it asks once more.
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
        """Send a beat; gives why the run must be ended, as fields of an exit report, or None.

        Raises:
            RuntimeError: the store does not answer.
        """
        own = Beat(self._placement.rank, self._placement.node, number, self._moves, self._doing)
        self._store.set(_key(own.rank), json.dumps(own))
        if self._store.check([ALARM]):
            return {}
        ended = self._hang_detector.check(self._last_beats(), time.monotonic()) if own.rank == 0 else {}
        return ended or None

    def _last_beats(self) -> list[Beat]:
        """The last beat of every rank; number 0 for a rank that has sent none."""
        beats = []
        for rank in range(self._placement.workers):
            there = self._store.check([_key(rank)])
            beat = json.loads(self._store.get(_key(rank))) if there else (rank, "its node", 0, 0, "begins")
            beats.append(Beat(*beat))
        return beats

    def _wait_for_the_others(self) -> None:
        """Wait a while for all reports: rank 0 keeps the store, and a parent may need them."""
        deadline = time.monotonic() + GRACE_SECONDS
        while time.monotonic() < deadline:
            if all(map(exit_report.is_left, self._recorders)):
                return
            time.sleep(0.05)


def _key(rank: int) -> str:
    return f"beat/{rank}"


def _stacks() -> str:
    """The stacks of all threads of this process."""
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        return file.read()
