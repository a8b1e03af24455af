"""Where a rank is, and how it reaches the others; needs no torch."""

import socket
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Placement:
    """Which worker this process is, and where to reach rank 0."""

    rank: int
    workers: int
    place: int  # number among the workers of this node, from 0
    node: str  # the name of this node
    host: str  # of rank 0
    port: int  # of rank 0
    launcher: str  # the program that has started this process
    # The secret of the run: processes that do not know it are refused.
    secret: bytes = field(repr=False)
    # The socket on which rank 0 listens, if it is already open; otherwise rank 0 opens host and port itself.
    listener: socket.socket | None = field(default=None, repr=False)

    def describe(self) -> str:
        """Name the rank and its node, for messages."""
        return f"rank {self.rank} on {self.node}"
