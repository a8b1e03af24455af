"""The interface of a transport, which carries the calls of the workers."""

from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

from torch import Tensor

from thinwire.traffic.payload import Payload
from thinwire.transport.call import Call, Group, Pending

T = TypeVar("T")
# How workers are connected: all of them in one process, each in its own, or one of them without the others.
Kind = Literal["inprocess", "measured", "emulated", "mirrored"]
Outcome = tuple[str, str | None]  # status of a run, and the reason


class Ended(Exception):
    """Another process cannot continue the run."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(": ".join(filter(None, outcome)))
        self.outcome = outcome


class Transport:
    """Carries the calls of the workers in this process to all other workers.

    What is not abstract here is right for a process that needs no other one.
    """

    kind: Kind  # of the results over this transport, for the record; `mirrored` ones have none
    ranks: Sequence[int]  # the workers of this process
    overlaps: bool  # are gradients sent while the backward pass still runs?

    def together(self, turns: Sequence[Callable[[], T]]) -> list[T]:
        """Run one function for each worker of this process."""
        return [turn() for turn in turns]

    def shared_like(self, tensors: Sequence[Tensor]) -> list[Tensor] | None:
        """Return tensors with these shapes and types in memory that the workers of a node share.

        Their content is arbitrary. None if there is no such memory. All workers of a node must ask for the
        same shapes in the same order.
        """
        return None

    def post(self, group: Group, call: Call) -> Pending[object]:
        """Begin or join the next collective call on the channel."""
        raise NotImplementedError

    def send(self, group: Group, call: Call) -> Pending[None]:
        """Send a message to one worker, without waiting for it."""
        raise NotImplementedError

    def receive(self, group: Group, call: Call) -> Pending[Payload]:
        """Begin to receive the next message from one worker."""
        raise NotImplementedError

    def wait(self, pending: Pending[object]) -> None:
        """Wait until `pending` is done.

        Raises:
            ConnectionLost: another process has ended.
        """
        raise NotImplementedError

    def arrive(self) -> None:
        """Wait for everything that is on its way, so that the ledgers are complete."""

    def travels(self) -> bool:
        """Is something on its way for a worker of this process, which does something else meanwhile?"""
        return False

    def check_settled(self) -> None:
        """Check after a step that no call or message is left in this process.

        The engine itself finds the calls for which a worker has not waited.

        Raises:
            MethodError: something is left.
        """

    def share(self, own: list[T]) -> list[T]:
        """Gather one value from every worker; return the values in the order of the ranks.

        For the engine's own needs: this is not metered.

        Args:
            own: the values of the workers in this process; numbers, texts, lists and dictionaries.

        Raises:
            Ended: another process cannot continue.
        """
        return own

    def end_together(self, outcome: Outcome) -> Outcome:
        """Report that this process cannot continue; return the outcome that all processes agree on.

        It is the outcome of the failed process with the lowest rank. All other processes receive it at their
        next `share`, which raises `Ended`.

        Raises:
            ConnectionLost: they do not call `share`, because they wait for this process elsewhere.
        """
        return outcome

    def check_agreement(self) -> None:
        """Check that all workers have made the same calls so far.

        Every process must call this at the same time.

        Raises:
            MethodError: calls differ, or a message was not received.
        """
