"""What is entered in the ledgers for each verb: the same whatever carries the bytes."""

from thinwire.call import nbytes
from thinwire.group import Group
from thinwire.traffic import wire_bytes
from thinwire.traffic.payload import Payload

# Bytes of the length that goes with a tensor whose size the receiver cannot know.
SIZE_BYTES = 8


def sizes(payload: Payload, ragged: bool) -> dict[str, int]:
    """Bytes of a payload by kind; of a ragged one its sizes too, which the other end cannot know."""
    own = {kind: nbytes([tensor]) for kind, tensor in payload.items()}
    if ragged:
        own["sizes"] = own.get("sizes", 0) + SIZE_BYTES * len(payload)
    return own


def mean(group: Group, kind: str, size: int) -> None:
    """A mean of `size` bytes."""
    group.meter("mean", kind, size, size, wire_bytes.all_reduce(group.rank, group.nodes, size))


def gather(group: Group, each: dict[str, list[int]]) -> None:
    """A gathering to which the members give `each[kind][rank]` bytes."""
    for kind, given in each.items():
        own = given[group.rank]
        passed = wire_bytes.all_gather(group.rank, group.nodes, given)
        group.meter("gather", kind, own, sum(given) - own, passed)


def broadcast(group: Group, kind: str, size: int, source: int) -> None:
    """`size` bytes from the member `source` to all others."""
    mine = group.rank == source
    passed = wire_bytes.broadcast(group.rank, group.nodes, size, source)
    group.meter("broadcast", kind, size if mine else 0, 0 if mine else size, passed)


def push(group: Group, each: dict[str, list[int]], server: int) -> None:
    """Pushes of `each[kind][rank]` bytes to the server on the member `server`."""
    for kind, given in each.items():
        passed = wire_bytes.push(group.rank, group.nodes, given, server)
        group.meter("push", kind, given[group.rank], 0, passed)


def pull(group: Group, answer: dict[str, int], server: int) -> None:
    """The server's answer of `answer[kind]` bytes to every member."""
    for kind, size in answer.items():
        passed = wire_bytes.pull(group.rank, group.nodes, size, server)
        group.meter("pull", kind, 0, size, passed)


def send(group: Group, message: dict[str, int], to: int) -> None:
    """A message to another worker; what a worker sends to itself stays where it is."""
    if to == group.rank:
        return
    for kind, size in message.items():
        passed = wire_bytes.send(group.nodes[group.rank], group.nodes[to], size)
        group.meter("send", kind, size, 0, passed)


def receive(group: Group, message: dict[str, int], source: int) -> None:
    """A message from another worker."""
    if source == group.rank:
        return
    for kind, size in message.items():
        group.meter("receive", kind, 0, size, wire_bytes.receive(size))
