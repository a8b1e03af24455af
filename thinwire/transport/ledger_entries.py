"""The entries in the ledgers for each verb, the same for all transports."""

from thinwire.group import Group
from thinwire.traffic import wire_bytes


def mean(group: Group, kind: str, size: int) -> None:
    """Enter a mean of `size` bytes."""
    group.meter("mean", kind, size, size, wire_bytes.all_reduce(group.rank, group.nodes, size))


def gather(group: Group, each: dict[str, list[int]]) -> None:
    """Enter a gather in which the members hand over `each[kind][rank]` bytes."""
    for kind, given in each.items():
        own = given[group.rank]
        passed = wire_bytes.all_gather(group.rank, group.nodes, given)
        group.meter("gather", kind, own, sum(given) - own, passed)


def broadcast(group: Group, kind: str, size: int, source: int) -> None:
    """Enter a broadcast of `size` bytes from the member `source` to all others."""
    is_source = group.rank == source
    passed = wire_bytes.broadcast(group.rank, group.nodes, size, source)
    group.meter("broadcast", kind, size if is_source else 0, 0 if is_source else size, passed)


def push(group: Group, each: dict[str, list[int]], server: int) -> None:
    """Enter pushes of `each[kind][rank]` bytes to the server on the member `server`."""
    for kind, given in each.items():
        passed = wire_bytes.push(group.rank, group.nodes, given, server)
        group.meter("push", kind, given[group.rank], 0, passed)


def pull(group: Group, answer: dict[str, int], server: int) -> None:
    """Enter the server's answer of `answer[kind]` bytes to every member."""
    for kind, size in answer.items():
        passed = wire_bytes.pull(group.rank, group.nodes, size, server)
        group.meter("pull", kind, 0, size, passed)


def send(group: Group, message: dict[str, int], to: int) -> None:
    """Enter a message to another worker; messages of a worker to itself are not counted."""
    if to == group.rank:
        return
    for kind, size in message.items():
        passed = wire_bytes.send(group.nodes[group.rank], group.nodes[to], size)
        group.meter("send", kind, size, 0, passed)


def receive(group: Group, message: dict[str, int], source: int) -> None:
    """Enter a message from another worker."""
    if source == group.rank:
        return
    for kind, size in message.items():
        group.meter("receive", kind, 0, size, wire_bytes.receive(size))
