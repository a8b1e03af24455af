"""A parameter server: it receives the pushes of all workers and answers them."""

from typing import Any

from thinwire.traffic.payload import Payload


class Server:
    """The base class of every parameter server.

    Each worker creates a copy of the server; `Channel.push_pull` uses the copy on one of the workers. A
    server may make no calls on a channel.
    """

    def __init__(self, memory: dict[str, Any]) -> None:
        """Create the server.

        Args:
            memory: a dictionary inside the method's `memory`, so that checkpoints contain the server's state.
        """
        self.memory = memory

    def update(self, pushes: list[Payload]) -> Payload:
        """Return the answer, which all workers receive.

        Called once for each `Channel.push_pull`, when all workers have pushed.

        Args:
            pushes: the payloads of all workers, in the order of the ranks; they must not be changed.
        """
        raise NotImplementedError
