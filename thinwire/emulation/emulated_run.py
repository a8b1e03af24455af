"""What an emulated run measures of its cluster, for its record, and whether its times are valid."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from thinwire.config.cell import Cell
from thinwire.emulation.calibration import calibrate
from thinwire.emulation.training_meter import Training, TrainingMeter
from thinwire.traffic.ledger import Ledger
from thinwire.transport.transport import Transport
from thinwire.worker_placement import Cluster

# A run whose workers share cores has times only if its training could be shorter by at most this share.
MOST_CROWDING = 0.05


class EmulatedRun:
    """Of one worker. All workers make and use theirs at the same time."""

    def __init__(self, cell: Cell, transport: Transport) -> None:
        """Measure the links, before anything else is sent over them."""
        assert cell.cluster is not None
        self._cluster, self._transport = Cluster(cell.workers, cell.nodes), transport
        self._rate = cell.cluster.link.rate_bytes_per_second
        self._calibration = calibrate(self._cluster, transport, self._rate)
        self._cores = len(os.sched_getaffinity(0))
        self._training: Training | None = None  # until it has ended

    @contextmanager
    def counting(self, ledgers: Sequence[Ledger]) -> Iterator[Callable[[], AbstractContextManager[None]]]:
        """Count what is sent inside this context; gives another context for what is not training.

        Args:
            ledgers: of the workers in this process.
        """
        meter = TrainingMeter(self._cluster, self._transport, ledgers)
        meter.start()
        yield meter.paused
        meter.stop()
        self._training = meter.total()

    @property
    def no_time_because(self) -> str | None:
        """Why the times of the run say nothing about its method, in one clause; None if they are valid."""
        if reason := self._calibration.off_rate(self._rate):
            return reason
        shorter, ranks = self._shorter_by_at_most(), self._cluster.workers
        if shorter is not None and shorter > MOST_CROWDING:
            return (
                f"{ranks} workers shared {self._cores} core{'s' * (self._cores > 1)}, and without that "
                f"training could have been up to {shorter * 100:.1f} % shorter"
            )
        return None

    @property
    def provenance(self) -> dict[str, object]:
        """What was measured, for the record."""
        return {
            "calibration": self._calibration.model_dump(),
            "training": None if self._training is None else self._training.model_dump(),
            "crowding": {
                "ranks_per_core": self._cluster.workers / self._cores,
                "shorter_by_at_most": self._shorter_by_at_most(),
            },
        }

    def _shorter_by_at_most(self) -> float | None:
        """The largest share of its time by which training could be shorter on a core for each worker.

        Time in which all cores are busy would shrink to cores / workers of itself if each worker had a core.
        """
        if self._training is None:
            return None
        busy = self._training.processor_seconds / (self._cores * self._training.seconds)
        return busy * max(0.0, 1 - self._cores / self._cluster.workers)
