"""Workers with their channels, in one process or one in each of several, for tests of the verbs."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from tests import processes
from thinwire.api.channel import Channel, UnmeteredChannel
from thinwire.base.placement import Cluster
from thinwire.traffic.wire_bytes import Ledger
from thinwire.transport.call import Server
from thinwire.transport.inprocess import InProcess
from thinwire.transport.interface import Transport


class Me:
    """One worker and its channels."""

    def __init__(self, rank: int, cluster: Cluster, transport: Transport) -> None:
        self.rank, self.cluster, self.transport = rank, cluster, transport
        self.mates = list(cluster.world())
        self.ledger = Ledger()
        self.world, self.node, self.across = (
            self._channel(Channel, name) for name in ("world", "node", "across")
        )
        self.unmetered = self._channel(UnmeteredChannel, "unmetered")
        self.right, self.left = (rank + 1) % cluster.workers, (rank - 1) % cluster.workers

    def _channel(self, kind: type[Channel], name: str) -> Any:
        members = self.cluster.groups(self.rank)[name]
        nodes = tuple(self.cluster.node_of(member) for member in members)
        return kind(name, members, nodes, self.rank, self.transport, self.ledger)

    def rows(self) -> dict[tuple[str, str, str], tuple[int, int]]:
        return {key: (row.payload_push, row.payload_pull) for key, row in self.ledger.rows.items()}


Part = Callable[[Me], None]
PARTS: dict[str, Part] = {}


def everywhere(part: Part) -> Part:
    """Register one worker's part of a test, which four workers will run on each transport."""
    PARTS[part.__name__] = part
    return part


def play_in_process(part: Part, cluster: Cluster) -> list[dict[str, list[int]]]:
    """The ledgers afterwards, by rank."""
    transport = InProcess(cluster.workers)
    mes = [Me(rank, cluster, transport) for rank in cluster.world()]
    transport.together([partial(part, me) for me in mes])
    transport.check_settled()
    return [me.ledger.state() for me in mes]


def play_here(part: Part, cluster: Cluster) -> dict[str, list[int]]:
    """Run this process's part, and return its ledger afterwards."""
    transport = processes.transport(cluster)
    me = Me(transport.ranks[0], cluster, transport)
    with torch.no_grad():
        part(me)
    transport.check_agreement()
    return me.ledger.state()


def floats(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float32)


def same(tensor: torch.Tensor, *numbers: float) -> bool:
    return tensor.flatten().tolist() == list(numbers)


class Sum(Server):
    """Answers with the sum, and counts how often."""

    def update(self, pushes: list[Any]) -> Any:
        self.memory["asked"] = self.memory.get("asked", 0) + 1
        return {"weights": sum(push["values"] for push in pushes)}


class Echo(Server):
    """Answers with what the last worker has pushed."""

    def update(self, pushes: list[Any]) -> Any:
        return pushes[-1]
