"""The ledgers of one worker, never mixed: payload, wire, between nodes.

Payload is what the worker encodes (push) and what it decodes (pull), once, by kind. Wire is what the
collective's algorithm makes of that on the worker's link. Between nodes is the part of what it sent that
went to another node. All in bytes.
"""

from dataclasses import astuple, dataclass

from thinwire.traffic.wire_bytes import Wire

KINDS = ("values", "indices", "scales", "sizes", "weights", "buffers", "control")


@dataclass(slots=True)
class Bytes:
    """Totals of one (channel, verb, kind), in bytes but for `messages`."""

    messages: int = 0
    payload_push: int = 0
    payload_pull: int = 0
    wire_sent: int = 0
    wire_received: int = 0
    between_nodes: int = 0


class Ledger:
    """Everything that one worker has sent and received so far."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str, str], Bytes] = {}

    def add(self, channel: str, verb: str, kind: str, push: int, pull: int, wire: Wire) -> None:
        """Enter one kind of payload of one message."""
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
        """The sum over channels, verbs and kinds."""
        rows = [astuple(row) for row in self.rows.values()]
        return Bytes(*(sum(column) for column in zip(*rows))) if rows else Bytes()

    def state(self) -> dict[str, list[int]]:
        return {"/".join(key): list(astuple(row)) for key, row in self.rows.items()}

    def load(self, state: dict[str, list[int]]) -> None:
        self.rows = {}
        for key, row in state.items():
            channel, verb, kind = key.split("/")
            self.rows[(channel, verb, kind)] = Bytes(*row)
