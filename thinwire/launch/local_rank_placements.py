"""Where the ranks of a run on this machine are: on the machine itself, or on nodes that it emulates."""

import secrets
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager

from thinwire.config.cell import Cell
from thinwire.emulation.network import Network
from thinwire.emulation.require_emulable import require_emulable
from thinwire.transport import listening
from thinwire.transport.rank_placement import Placement

# Of rank 0 on its emulated node, where nothing else listens.
_PORT = 29500


@contextmanager
def emulated(cell: Cell) -> Iterator[Network | None]:
    """The emulated network of a cell, which vanishes with the last of its ranks; None if it has none.

    Raises:
        UserError: this machine cannot emulate it.
    """
    if cell.cluster is None:
        yield None
        return
    require_emulable(cell)
    link = cell.cluster.link
    with closing(Network(cell.nodes, link.rate_bits_per_second, link.latency_seconds)) as network:
        yield network


def placements(cell: Cell, network: Network | None) -> list[Placement]:
    """The placement of each worker of a cell: on this machine, or on the nodes of an emulated network."""
    here, secret = socket.gethostname(), secrets.token_bytes()
    per_node = cell.workers // cell.nodes
    if network is not None:
        return [
            Placement(
                rank,
                cell.workers,
                rank % per_node,
                f"node{rank // per_node}",
                network.host,
                _PORT,
                "fork",
                secret,
            )
            for rank in range(cell.workers)
        ]
    listener = listening.on_loopback()
    host, port, *_ = listener.getsockname()
    return [
        Placement(rank, cell.workers, rank % per_node, here, host, port, "fork", secret, listener)
        for rank in range(cell.workers)
    ]
