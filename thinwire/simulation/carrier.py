"""What the event loop needs of whoever carries the calls of its workers, and so decides when they end."""

from typing import Protocol

from thinwire.simulation.program import HandOver


class Carried(Protocol):
    """A call, as a worker that has made it sees it."""

    begin: float  # when the last member has made it; valid once `end` is known
    end: float  # below 0: not known
    served: float  # seconds at the server, waiting and computing
    blocked: list[int]  # workers that wait for it


class Carrier(Protocol):
    """Carries calls."""

    sent_bytes: int
    between_nodes_bytes: int

    def hand_over(self, worker: int, what: HandOver, now: float) -> Carried:
        """Take over the next call of a worker on a channel."""

    def carry(self) -> list[int] | None:
        """Carry what begins first; no worker can run on before that.

        Returns:
            The workers that need not wait any longer; None: there is nothing to carry.
        """
