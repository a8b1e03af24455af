"""Where heartbeats and the alarm go: into memory that ranks share, or into the store of a cluster."""

import json
from collections.abc import Sequence
from typing import NamedTuple

from thinwire.base.placement import Address, Placement
from thinwire.launch.postmortem import RankStatus
from thinwire.transport.rendezvous import store_of, within

# A key of the store.
_ALARM = "alarm"


class Beat(NamedTuple):
    """The heartbeat of a rank."""

    rank: int
    node: str
    number: int  # rises with every beat, as long as the process lives
    moves: int  # rises with every action of its worker
    doing: str


class SharedBeats:
    """The heartbeats of ranks of one machine, in their statuses."""

    all_check = True

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
    """The heartbeats of ranks that meet in a store of torch.

    All methods raise RuntimeErrors if rank 0 is gone, and TimeoutErrors if it does not answer in time.
    """

    all_check = False

    def __init__(self, placement: Placement, address: Address, timeout_seconds: float) -> None:
        self._workers, self._seconds = placement.workers, timeout_seconds
        # A connection of its own, because a request that waits holds up all later ones.
        self._store = store_of(placement, address, timeout_seconds)

    def send(self, beat: Beat) -> None:
        within(self._seconds, lambda: self._store.set(_key(beat.rank), json.dumps(beat)))

    def last(self) -> list[Beat]:
        """The last beat of every rank; number 0 for a rank that has sent none."""
        return within(self._seconds, self._last)

    def _last(self) -> list[Beat]:
        beats = []
        for rank in range(self._workers):
            there = self._store.check([_key(rank)])
            beat = json.loads(self._store.get(_key(rank))) if there else (rank, "its node", 0, 0, "begins")
            beats.append(Beat(*beat))
        return beats

    def raise_alarm(self) -> None:
        within(self._seconds, lambda: self._store.set(_ALARM, ""))

    def alarm(self) -> bool:
        """Has a rank raised the alarm?"""
        return within(self._seconds, lambda: self._store.check([_ALARM]))


def _key(rank: int) -> str:
    return f"beat/{rank}"
