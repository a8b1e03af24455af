"""What a collective's algorithm puts on one worker's link, in bytes, exact to the byte.

Bandwidth-optimal algorithms, in the convention of NVIDIA's nccl-tests (doc/PERFORMANCE.md): a ring for
all-reduce and all-gather, a chain for broadcast, direct links to a parameter server. The sums over all
workers are exact: what one sends, another receives.

`nodes` gives the node of each member of the group, in the group's order; members on one node stand
together, so a ring crosses from node to node as rarely as it can.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple


class Wire(NamedTuple):
    """Bytes on one worker's link during one collective."""

    sent: int
    received: int
    between_nodes: int  # the part of `sent` that went to a worker on another node


def _chunk(nbytes: int, size: int, index: int) -> int:
    """Bytes of chunk `index` when a buffer is cut into `size` chunks as evenly as bytes allow."""
    index %= size
    return nbytes * (index + 1) // size - nbytes * index // size


@lru_cache(maxsize=4096)
def all_reduce(rank: int, nodes: tuple[int, ...], nbytes: int) -> Wire:
    """Ring all-reduce of a buffer of `nbytes`: 2 (n-1)/n of it in each direction.

    Reduce-scatter: rank r passes on every chunk but number r+1. All-gather: every chunk but number r+2.
    """
    size = len(nodes)
    if size == 1:
        return Wire(0, 0, 0)
    sent = 2 * nbytes - _chunk(nbytes, size, rank + 1) - _chunk(nbytes, size, rank + 2)
    received = 2 * nbytes - _chunk(nbytes, size, rank) - _chunk(nbytes, size, rank + 1)
    return Wire(sent, received, sent if nodes[(rank + 1) % size] != nodes[rank] else 0)


def all_gather(rank: int, nodes: Sequence[int], nbytes: Sequence[int]) -> Wire:
    """Ring all-gather of `nbytes[r]` from every rank r: each worker receives what the others gave."""
    size = len(nodes)
    if size == 1:
        return Wire(0, 0, 0)
    following = (rank + 1) % size
    total = sum(nbytes)
    sent = total - nbytes[following]
    return Wire(sent, total - nbytes[rank], sent if nodes[following] != nodes[rank] else 0)


@lru_cache(maxsize=4096)
def broadcast(rank: int, nodes: tuple[int, ...], nbytes: int, source: int) -> Wire:
    """Pipelined chain from `source`: each worker receives the buffer once, all but the last pass it on.

    The source's node comes first and the others after it, so the chain crosses to each of them once.
    """
    size = len(nodes)
    turned = [(source + i) % size for i in range(size)]
    chain = sorted(turned, key=lambda member: (nodes[member] - nodes[source]) % (max(nodes) + 1))
    place = chain.index(rank)
    last = place == size - 1
    return Wire(
        sent=0 if last else nbytes,
        received=0 if place == 0 else nbytes,
        between_nodes=0 if last or nodes[chain[place + 1]] == nodes[rank] else nbytes,
    )


def push(rank: int, nodes: Sequence[int], nbytes: Sequence[int], server: int) -> Wire:
    """Every rank r pushes `nbytes[r]` to the server, which lives on worker `server`.

    What the server's own worker pushes stays inside it, but everybody else's push arrives on its link.
    """
    if rank == server:
        return Wire(0, sum(nbytes) - nbytes[server], 0)
    return Wire(nbytes[rank], 0, nbytes[rank] if nodes[rank] != nodes[server] else 0)


def pull(rank: int, nodes: Sequence[int], nbytes: int, server: int) -> Wire:
    """The server on worker `server` answers `nbytes` to every worker; its own answer stays inside it."""
    if rank == server:
        away = sum(node != nodes[server] for node in nodes)
        return Wire(nbytes * (len(nodes) - 1), 0, nbytes * away)
    return Wire(0, nbytes, 0)


def send(here: int, there: int, nbytes: int) -> Wire:
    """One message from a worker on node `here` to another worker on node `there`, as the sender sees it."""
    return Wire(nbytes, 0, nbytes if here != there else 0)


def receive(nbytes: int) -> Wire:
    """One message, as the receiver sees it."""
    return Wire(0, nbytes, 0)
