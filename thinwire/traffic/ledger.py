"""The ledger of one worker: how many bytes it has sent and received, by kind of payload.

It counts three quantities separately, in bytes:

- *Payload* is what the worker encodes (push) and decodes (pull), counted once, by kind.
- *Wire* is what the algorithm of the collective sends and receives on the worker's link for that.
- *Between nodes* is the part of the sent wire bytes that went to another node.
"""

from dataclasses import astuple, dataclass

from thinwire.traffic.wire_bytes import Wire


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


KINDS = ("values", "indices", "scales", "sizes", "weights", "buffers", "control")
