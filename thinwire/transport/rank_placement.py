"""Where a rank is, and how it meets the others; needs no torch."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SharedFile:
    """Where ranks of one machine meet: in a file that only they have open."""

    path: str
    interface: str  # the network interface of their connections


@dataclass(frozen=True)
class Address:
    """Where ranks meet that have no parent in common: at an address of rank 0."""

    host: str
    port: int
    launch: str  # a name that no other launch has


@dataclass(frozen=True)
class Placement:
    """Which worker this process is, and where it meets the others."""

    rank: int
    workers: int
    place: int  # number among the workers of this node, from 0
    node: str  # the name of this node
    launcher: str  # the program that has started this process
    meeting: SharedFile | Address

    def describe(self) -> str:
        """Name the rank and its node, for messages."""
        return f"rank {self.rank} on {self.node}"
