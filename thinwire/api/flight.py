"""Messages in flight: sent in one step, used in a later one, and saved in the checkpoints between."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from thinwire.transport.call import Pending


@dataclass
class Landing:
    """A message that has landed: its answer, and the method's note about it."""

    answer: Any
    """What `wait()` returned; None if there was no `pending`."""
    note: dict[str, Any]
    """The note that was passed to `Flight.launch`."""


class Flight:
    """Messages on their way, each with the step (or round) at which it lands.

    Every checkpoint contains them, as it contains `memory`.
    """

    def __init__(self) -> None:
        self._messages: list[tuple[int, Pending[object] | None, Landing]] = []

    def __len__(self) -> int:
        return len(self._messages)

    def launch(self, pending: Pending[object] | None, lands: int, **note: object) -> None:
        """Keep a message in flight.

        Args:
            pending: the answer of the message. None: keep only the note, for a worker that must know when a
                message between other workers lands.
            lands: the step (or round) at which the message lands.
            note: numbers and tensors that the method will need then.
        """
        if pending is not None:
            pending.group.unclaimed.discard(pending)
        self._messages.append((lands, pending, Landing(None, note)))

    def landed(self, now: float) -> Iterator[Landing]:
        """Remove and yield the messages that have landed by `now`, in the order of their launch."""
        # One at a time: if a caller takes only the first, the others stay in flight.
        while (due := next((i for i, m in enumerate(self._messages) if m[0] <= now), None)) is not None:
            _, pending, landing = self._messages.pop(due)
            if pending is not None:
                landing.answer = pending.wait()
            yield landing

    def state(self) -> list[dict[str, Any]]:
        """Return everything in flight for a checkpoint; waits for all answers."""
        return [
            {
                "lands": lands,
                "answer": landing.answer if pending is None else pending.wait(),
                "note": landing.note,
            }
            for lands, pending, landing in self._messages
        ]

    def load(self, state: list[dict[str, Any]]) -> None:
        """Restore what `state` returned."""
        self._messages = [(entry["lands"], None, Landing(entry["answer"], entry["note"])) for entry in state]
