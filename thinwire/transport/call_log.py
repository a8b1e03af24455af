"""The calls of each rank on each channel, and whether those of all ranks are the same."""

from collections import deque
from typing import TypedDict
from zlib import crc32

from thinwire.call import Call

# How many of the last calls are kept in words, to describe them if the workers do not agree.
REMEMBERED = 200


class CallLog:
    """The calls of one worker on one channel: number and digest of all calls, and the last ones in words."""

    def __init__(self) -> None:
        self.count = 0
        self.digest = 0
        self._last: deque[str] = deque(maxlen=REMEMBERED)

    def note(self, call: Call) -> str:
        """Enter a call; return its description."""
        description = call.describe()
        shapes = [tuple(tensor.shape) for tensor in call.tensors]
        self.count += 1
        self.digest = crc32(f"{description}{shapes}".encode(), self.digest)
        self._last.append(description)
        return description

    def last(self) -> dict[str, str]:
        """Return the last calls in words, by number; the first call of a channel has number 1."""
        first = self.count - len(self._last) + 1
        return {str(first + i): description for i, description in enumerate(self._last)}


class Summary(TypedDict):
    """What one worker has done on one channel; the members compare their summaries."""

    calls: list[int]  # number and digest
    sent: list[int]  # messages, by receiver
    received: list[int]  # messages, by sender


def disagreeing(summaries: list[dict[str, Summary]]) -> str | None:
    """Return a channel on which the workers have not made the same calls; None if there is none.

    Args:
        summaries: of every worker, by channel.
    """
    for key in {key for summary in summaries for key in summary}:
        if len({tuple(summary[key]["calls"]) for summary in summaries if key in summary}) > 1:
            return key
    return None
