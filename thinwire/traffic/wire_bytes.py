"""The bytes that each collective sends and receives on one worker's link, and the ledger with their sums.

A ledger counts three quantities separately, in bytes:

- *Payload* is what the worker encodes (push) and decodes (pull), counted once, by kind.
- *Wire* is what the algorithm of the collective sends and receives on the worker's link for that.
- *Between nodes* is the part of the sent wire bytes that went to another node.

The algorithms are bandwidth-optimal, in the convention of NVIDIA's nccl-tests (doc/PERFORMANCE.md). Rings are
for all-reduce and all-gather, chains for broadcast and reduce, and direct links to a parameter server. What
one worker sends, another one receives. `nodes` gives the node of each member of the group, in the order of
the ranks. Members on the same node are neighbours in that order, so a ring crosses between nodes as rarely as
possible.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import lru_cache
from typing import NamedTuple

KINDS = ("values", "indices", "scales", "sizes", "weights", "buffers", "control")


class Wire(NamedTuple):
    """Bytes on one worker's link during one collective."""

    sent: int
    received: int
    between_nodes: int  # the part of `sent` that went to a worker on another node


def _chunk(nbytes: int, size: int, index: int) -> int:
    """Return the bytes of chunk `index` if a buffer is divided as evenly as possible into `size` chunks."""
    index %= size
    return nbytes * (index + 1) // size - nbytes * index // size


@lru_cache(maxsize=4096)
def all_reduce(rank: int, nodes: tuple[int, ...], nbytes: int) -> Wire:
    """Ring all-reduce of a buffer of `nbytes`: each worker sends and receives 2 (n-1)/n of it.

    In the reduce-scatter, rank r sends every chunk except number r+1; in the all-gather, every one except
    r+2.
    """
    size = len(nodes)
    if size == 1:
        return Wire(0, 0, 0)
    sent = 2 * nbytes - _chunk(nbytes, size, rank + 1) - _chunk(nbytes, size, rank + 2)
    received = 2 * nbytes - _chunk(nbytes, size, rank) - _chunk(nbytes, size, rank + 1)
    return Wire(sent, received, sent if nodes[(rank + 1) % size] != nodes[rank] else 0)


def all_gather(rank: int, nodes: Sequence[int], nbytes: Sequence[int]) -> Wire:
    """Ring all-gather of `nbytes[r]` from every rank r: each worker receives the data of all others."""
    size = len(nodes)
    if size == 1:
        return Wire(0, 0, 0)
    following = (rank + 1) % size
    total = sum(nbytes)
    sent = total - nbytes[following]
    return Wire(sent, total - nbytes[rank], sent if nodes[following] != nodes[rank] else 0)


@lru_cache(maxsize=4096)
def broadcast(rank: int, nodes: tuple[int, ...], nbytes: int, source: int) -> Wire:
    """Pipelined chain from `source`: each worker receives the buffer once, and all but the last send it on.

    The node of the source comes first. The chain enters each of the other nodes once.
    """
    before, after = _in_chain(rank, nodes, source)
    return Wire(
        sent=0 if after is None else nbytes,
        received=0 if before is None else nbytes,
        between_nodes=0 if after in (None, nodes[rank]) else nbytes,
    )


def reduce(rank: int, nodes: tuple[int, ...], nbytes: int, target: int) -> Wire:
    """The chain of a broadcast, backwards: all but `target` send their sum with what they have received."""
    before, after = _in_chain(rank, nodes, target)
    return Wire(
        sent=0 if before is None else nbytes,
        received=0 if after is None else nbytes,
        between_nodes=0 if before in (None, nodes[rank]) else nbytes,
    )


def _in_chain(rank: int, nodes: tuple[int, ...], first: int) -> tuple[int | None, int | None]:
    """The nodes of the members before and after a rank, in the chain that begins at rank `first`."""
    size = len(nodes)
    rotated = [(first + i) % size for i in range(size)]
    chain = sorted(rotated, key=lambda member: (nodes[member] - nodes[first]) % (max(nodes) + 1))
    on = [None, *(nodes[member] for member in chain), None]
    place = chain.index(rank)
    return on[place], on[place + 2]


def push(rank: int, nodes: Sequence[int], nbytes: Sequence[int], server: int) -> Wire:
    """Every rank r pushes `nbytes[r]` to the server, which lives on the worker with rank `server`.

    The push of the server's own worker stays local. All other pushes arrive on that worker's link.
    """
    if rank == server:
        return Wire(0, sum(nbytes) - nbytes[server], 0)
    return Wire(nbytes[rank], 0, nbytes[rank] if nodes[rank] != nodes[server] else 0)


def pull(rank: int, nodes: Sequence[int], nbytes: int, server: int) -> Wire:
    """The server on rank `server` answers `nbytes` to every worker; that to its own worker stays local."""
    if rank == server:
        away = sum(node != nodes[server] for node in nodes)
        return Wire(nbytes * (len(nodes) - 1), 0, nbytes * away)
    return Wire(0, nbytes, 0)


def send(here: int, there: int, nbytes: int) -> Wire:
    """One message from a worker on node `here` to another worker on node `there`: the sender's bytes."""
    return Wire(nbytes, 0, nbytes if here != there else 0)


def receive(nbytes: int) -> Wire:
    """One message: the receiver's bytes."""
    return Wire(0, nbytes, 0)


_BYTES_OF_A_SIZE = 8


def ragged_size_bytes(tensors: int) -> int:
    """The bytes of the sizes of a ragged payload that consists of so many tensors."""
    return _BYTES_OF_A_SIZE * tensors


PAYLOAD, HEADERS = 1448, 66


def payload_rate(rate_bytes_per_second: float) -> float:
    """Bytes of payload in a second, over a link that is full in one direction.

    A full frame of TCP/IP over Ethernet has 1,514 bytes: 14 of Ethernet, 20 of IP, 32 of TCP with time
    stamps, and 1,448 of payload. The receiver acknowledges at least every second frame, mostly fewer, with a
    frame of 66 bytes. So for messages of many frames the bytes on all links together are 4.6 to 6.8 % more
    than the payload. Preambles, checksums of frames and gaps between them (24 bytes a frame) are not counted:
    the rate of an emulated link leaves them out.
    """
    return rate_bytes_per_second * PAYLOAD / (PAYLOAD + HEADERS)


@dataclass(slots=True)
class Bytes:
    """Totals of one (channel, verb, kind): all in bytes, except `messages`, which is a count."""

    messages: int = 0
    payload_push: int = 0
    payload_pull: int = 0
    wire_sent: int = 0
    wire_received: int = 0
    between_nodes: int = 0


class Ledger:
    """Everything that one worker has sent and received so far, by (channel, verb, kind)."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str, str], Bytes] = {}

    def add(self, channel: str, verb: str, kind: str, push: int, pull: int, wire: Wire) -> None:
        """Enter the tensor of one kind in one message, in bytes.

        Args:
            channel: its name.
            verb: of the call; a `push_pull` is entered as `push` and `pull`.
            kind: one of `KINDS`.
            push: what the worker encoded.
            pull: what the worker decoded.
            wire: what passed the worker's link.
        """
        row = self.rows.get((channel, verb, kind))
        if row is None:
            row = self.rows[(channel, verb, kind)] = Bytes()
        row.messages += 1
        row.payload_push += push
        row.payload_pull += pull
        row.wire_sent += wire.sent
        row.wire_received += wire.received
        row.between_nodes += wire.between_nodes

    def total(self) -> Bytes:
        """Return the sum over channels, verbs and kinds."""
        return Bytes(*map(sum, zip(*map(astuple, self.rows.values()))))

    def state(self) -> dict[str, list[int]]:
        """Return all rows for a checkpoint."""
        return {"/".join(key): list(astuple(row)) for key, row in self.rows.items()}

    def load(self, state: dict[str, list[int]]) -> None:
        """Restore what `state` returned."""
        self.rows = {}
        for key, row in state.items():
            channel, verb, kind = key.split("/")
            self.rows[(channel, verb, kind)] = Bytes(*row)
