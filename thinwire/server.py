"""A parameter server: it answers what all workers push."""

from typing import Any

from thinwire.traffic.payload import Payload


class Server:
    """The base of every parameter server.

    Give it a dictionary inside the method's `memory`: then its state is saved with the run. Pushes and answer
    are flat, as all payloads are. A server makes no calls on a channel.
    """

    def __init__(self, memory: dict[str, Any]) -> None:
        self.memory = memory

    def update(self, pushes: list[Payload]) -> Payload:
        """The answer to the payloads of all workers, in the order of the ranks."""
        raise NotImplementedError
