"""A group of workers that share a channel, as one of them sees it, and its ledger."""

from typing import Any

from thinwire.trace.recorder import Recorder
from thinwire.traffic.ledger import Ledger
from thinwire.traffic.wire_bytes import Wire


class Group:
    """One worker as a member of a group. A *rank* is a member's place in the group."""

    def __init__(
        self, name: str, members: tuple[int, ...], nodes: tuple[int, ...], worker: int, ledger: Ledger
    ) -> None:
        """Describe the group.

        Args:
            name: the name of its channel.
            members: the workers, in the order of their ranks.
            nodes: the node of each member.
            worker: the member that this object stands for.
            ledger: the ledger of that member.
        """
        self.name = name
        self.members = members
        self.nodes = nodes
        self.size = len(members)
        self.rank = members.index(worker)
        self.key = (name, members[0])
        self.calls = 0  # how many collective calls this member has made
        self.unclaimed: set[Any] = set()  # pending answers that nobody has waited for yet
        self.recorder: Recorder | None = None  # of that member, if it is traced
        self._ledger = ledger

    def meter(self, verb: str, kind: str, push: int, pull: int, passed: Wire) -> None:
        """Enter traffic in the ledger, in bytes."""
        self._ledger.add(self.name, verb, kind, push, pull, passed)
