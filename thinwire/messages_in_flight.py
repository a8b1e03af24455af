"""Messages in flight: sent in one step, used in a later one, and kept in the checkpoints between."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from thinwire.call import Pending


@dataclass
class Landing:
    """A message that has landed: its answer, and what the method wrote beside it."""

    answer: Any
    note: dict[str, Any]


class Flight:
    """Messages on their way, each with the step (or round) at which it lands.

    The engine saves them with the run, as it saves `memory`.
    """

    def __init__(self) -> None:
        self._messages: list[tuple[int, Pending[Any] | None, Landing]] = []

    def __len__(self) -> int:
        return len(self._messages)

    def launch(self, pending: Pending[Any] | None, lands: int, **note: Any) -> None:
        """Keep `pending` in flight until `lands`; `note` holds numbers and tensors to find again there.

        Without a `pending`, the note alone lands: on workers that must know when a message of others does.
        """
        if pending is not None:
            pending.group.unclaimed.discard(pending)
        self._messages.append((lands, pending, Landing(None, note)))

    def landed(self, now: float) -> Iterator[Landing]:
        """Take out, in the order of their launch, the messages that have landed by `now`."""
        # One at a time, so that a caller who takes only the first leaves the others in flight.
        while (due := next((i for i, m in enumerate(self._messages) if m[0] <= now), None)) is not None:
            _, pending, landing = self._messages.pop(due)
            if pending is not None:
                landing.answer = pending.wait()
            yield landing

    def state(self) -> list[dict[str, Any]]:
        """Everything in flight, with the answers that it will bring."""
        return [
            {
                "lands": lands,
                "answer": landing.answer if pending is None else pending.wait(),
                "note": landing.note,
            }
            for lands, pending, landing in self._messages
        ]

    def load(self, state: list[dict[str, Any]]) -> None:
        self._messages = [(entry["lands"], None, Landing(entry["answer"], entry["note"])) for entry in state]
