"""Each rank's heart: a thread that says that its process lives, and hears when the run must end.

Beats go through the store in which the ranks have met, and rank 0 judges them. It raises the alarm when a
rank is silent or nothing moves; a rank that fails raises it for itself. Then every rank leaves its last words
and its stacks, and ends.
"""

import faulthandler
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Never

from thinwire.errors import UserError
from thinwire.launch import last_words
from thinwire.launch.black_box import BlackBox
from thinwire.launch.judge import Beat, Judge
from thinwire.launch.last_words import LastWords
from thinwire.transport.rendezvous import Placement, store_of

BEAT_SECONDS = 0.5
# A process that has not beaten for so long is stopped, or its host is gone.
SILENT_SECONDS = 15.0
# How long a rank that ends waits for the others to leave their words.
GRACE_SECONDS = 3.0
ALARM = "alarm"
# With this code a rank ends that cannot go on.
CANNOT_GO_ON = 3


class Watch:
    """One rank's."""

    def __init__(self, placement: Placement, folder: Path, log: Path, hang_seconds: float) -> None:
        """Begin to beat.

        Args:
            placement: of this rank, which has joined the others.
            folder: for last words; all ranks see it.
            log: for stacks.
            hang_seconds: a run in which no rank has moved for so long is ended.
        """
        self.calls: Callable[[], dict[str, dict[str, str]]] = dict
        self._placement, self._folder, self._log = placement, folder, log
        silent_seconds = min(SILENT_SECONDS, hang_seconds)
        self._judge = Judge(silent_seconds, hang_seconds)
        self._doing, self._moves = "starts", 0
        self._black_box = BlackBox(last_words.black_box_of(folder, placement.rank), placement.node)
        self._black_box.note(self._doing)
        # For signals after which no Python runs any more.
        self._fatal = log.open("a")
        faulthandler.enable(self._fatal)
        self._ending, self._over = Lock(), Event()
        self._store = store_of(placement, silent_seconds)
        self._thread = Thread(target=self._live, daemon=True)
        self._thread.start()

    def doing(self, what: str) -> None:
        """The worker tells what it is about to do."""
        self._doing = what
        self._moves += 1
        self._black_box.note(what)

    def over(self) -> None:
        """The run has ended well."""
        self._over.set()
        self._thread.join()

    def end(self, **what: Any) -> Never:
        """Raise the alarm, leave last words and end this process; `what` are fields of `LastWords`."""
        told = what.get("trouble") or what.get("alarm") or ": ".join(what.get("outcome") or ())
        if told:
            print(f"thinwire: {self._placement.describe()}: {told}", file=sys.stderr)
        # Of two threads that come here the second waits until the first has ended the process.
        self._ending.acquire()
        with suppress(OSError, UserError):
            with self._log.open("a") as log:
                log.write(f"stacks of {self._placement.describe()}:\n{_stacks()}")
            words = LastWords(
                rank=self._placement.rank,
                host=self._placement.node,
                doing=self._doing,
                calls=self._last_calls(),
                **what,
            )
            last_words.write(self._folder, words)
        with suppress(RuntimeError):
            self._store.set(ALARM, "")
        self._wait_for_the_others()
        os._exit(CANNOT_GO_ON)

    def _live(self) -> None:
        number = 0
        while True:
            number += 1
            own = Beat(self._placement.rank, self._placement.node, number, self._moves, self._doing)
            try:
                self._store.set(_key(own.rank), json.dumps(own))
                alarmed = self._store.check([ALARM])
                beats = self._heard() if own.rank == 0 else []
            except RuntimeError:
                if self._over.is_set():
                    return
                self.end(lost=f"rank 0 on {self._placement.host} does not answer any more")
            if alarmed:
                self.end()
            if alarm := self._judge.judge(beats, time.monotonic()):
                self.end(alarm=alarm)
            if self._over.wait(BEAT_SECONDS):
                return

    def _heard(self) -> list[Beat]:
        """The last beat of every rank; of one that has not beaten yet, none."""
        beats = []
        for rank in range(self._placement.workers):
            there = self._store.check([_key(rank)])
            said = json.loads(self._store.get(_key(rank))) if there else (rank, "its node", 0, 0, "starts")
            beats.append(Beat(*said))
        return beats

    def _last_calls(self) -> dict[str, dict[str, str]]:
        # The worker may be making calls while this thread reads them.
        with suppress(RuntimeError):
            return self.calls()
        return {}

    def _wait_for_the_others(self) -> None:
        """Rank 0 keeps the store, and a parent may wait for the words."""
        deadline = time.monotonic() + GRACE_SECONDS
        ranks = range(self._placement.workers)
        while time.monotonic() < deadline:
            if all(last_words.path_of(self._folder, rank).exists() for rank in ranks):
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
