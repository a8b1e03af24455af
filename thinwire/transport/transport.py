"""What the engine asks of a transport, whatever carries the bytes."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypeVar

from thinwire.call import Call, Pending
from thinwire.group import Group

T = TypeVar("T")
Outcome = tuple[str, str | None]  # status of a run, and the reason


class Ended(Exception):
    """Another process cannot go on."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(": ".join(filter(None, outcome)))
        self.outcome = outcome


class Transport(Protocol):
    """Carries the calls of the workers that live in this process to all others."""

    kind: Literal["inprocess", "measured"]  # how a result over it came about
    ranks: Sequence[int]  # the workers of this process
    overlaps: bool  # do gradients leave while the backward pass still runs?

    def together(self, turns: Sequence[Callable[[], T]]) -> list[T]:
        """Run one function for each worker of this process."""

    def post(self, group: Group, call: Call) -> Pending[Any]:
        """Join the next meeting on the channel."""

    def send(self, group: Group, call: Call) -> Pending[Any]:
        """Send a message to one worker."""

    def receive(self, group: Group, call: Call) -> Pending[Any]:
        """Receive the next message from one worker."""

    def wait(self, pending: Pending[Any]) -> None:
        """Return when `pending` is done."""

    def arrive(self) -> None:
        """Let everything that is on its way arrive, so that the ledgers are whole."""

    def check_settled(self) -> None:
        """After a step: nothing is left behind in this process."""

    def share(self, own: list[T]) -> list[T]:
        """What every worker says, in the order of the ranks, from what those of this process say.

        For the harness's own needs: nobody meters it. What is said is numbers, text, lists and dictionaries.
        """

    def end_together(self, outcome: Outcome) -> Outcome:
        """This process cannot go on: give all processes one outcome, the one of the first that has failed.

        The others hear of it when they next say something, by `Ended`.
        """

    def check_agreement(self) -> None:
        """All workers have made the same calls so far. Every process must ask at the same time."""
