"""Counts what training sends and computes, and leaves out evaluations.

An interval of training begins and ends when no message is on its way between workers. So the bytes that the
links have carried are those of the same calls as the bytes in the ledgers. A few hundred bytes of status,
which the workers exchange about once a second, are not in the ledgers.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from thinwire.emulation import link_bytes
from thinwire.traffic.ledger import Ledger
from thinwire.transport.transport import Transport
from thinwire.worker_placement import Cluster


class Training(BaseModel):
    """What was counted in all intervals of training of one attempt. Lists have an entry for each node."""

    model_config = ConfigDict(frozen=True)

    interface_bytes: list[float]  # sent on the node's link, headers included
    ledger_bytes: list[float]  # sent to other nodes, as the ledgers of its workers have it
    seconds: float
    processor_seconds: float  # of all workers together, on all cores


class _Reading(NamedTuple):
    interface_bytes: float
    ledger_bytes: float
    processor_seconds: float
    seconds: float


class TrainingMeter:
    """Of one worker. All workers use theirs at the same time."""

    def __init__(self, cluster: Cluster, transport: Transport, ledgers: Sequence[Ledger]) -> None:
        self._cluster, self._transport, self._ledgers = cluster, transport, ledgers
        # One worker of each node reads the counter of its link.
        self._reads = transport.ranks[0] % cluster.workers_per_node == 0
        self._sum = _Reading(0.0, 0.0, 0.0, 0.0)

    def start(self) -> None:
        """Begin an interval of training."""
        self._transport.share([None])
        self._begun = self._read()

    def stop(self) -> None:
        """End it: all workers have all that was sent to them."""
        self._transport.share([None])
        fields = zip(self._sum, self._read(), self._begun)
        self._sum = _Reading._make(total + end - begin for total, end, begin in fields)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave out what is done inside."""
        self.stop()
        yield
        self.start()

    def total(self) -> Training:
        """What all workers have counted."""
        ranks = [_Reading._make(counted) for counted in self._transport.share([list(self._sum)])]
        first = self._cluster.workers_per_node
        nodes = [ranks[begin : begin + first] for begin in range(0, len(ranks), first)]
        return Training(
            interface_bytes=[sum(rank.interface_bytes for rank in node) for node in nodes],
            ledger_bytes=[sum(rank.ledger_bytes for rank in node) for node in nodes],
            seconds=max(rank.seconds for rank in ranks),
            processor_seconds=sum(rank.processor_seconds for rank in ranks),
        )

    def _read(self) -> _Reading:
        return _Reading(
            link_bytes.sent() if self._reads else 0,
            sum(ledger.total().between_nodes for ledger in self._ledgers),
            time.process_time(),
            time.perf_counter(),
        )
