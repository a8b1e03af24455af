"""Checks that all workers make the same calls."""

from collections import deque
from typing import TypedDict
from zlib import crc32

from thinwire.call import Call
from thinwire.errors import MethodError
from thinwire.traffic.payload import Payload, bytes_by_kind, describe

# How many of the last calls are kept in words, to describe them if the workers do not agree.
REMEMBERED = 200


def agreed(payloads: list[Payload], ragged: bool) -> dict[str, list[int]]:
    """Check that the payloads match; return the bytes that each member hands over, by kind.

    For ragged payloads these include the bytes of the transmitted sizes.

    Raises:
        MethodError: the kinds or types differ, or the sizes differ and the payloads are not ragged.
    """
    first = describe(payloads[0], ragged=True)
    for rank, payload in enumerate(payloads):
        if (other := describe(payload, ragged=True)) != first:
            raise MethodError(
                f"rank 0 hands over {_listed(first)}, and rank {rank} {_listed(other)}: hand over the same "
                "kinds in the same order and of the same types, and an empty tensor where there is nothing"
            )
    each = [bytes_by_kind(payload, ragged) for payload in payloads]
    by_kind = {kind: [sizes[kind] for sizes in each] for kind in each[0]}
    for kind, sizes in by_kind.items():
        if len(set(sizes)) > 1 and not ragged:
            raise MethodError(
                f"the workers hand over {kind} of different sizes, {sizes} bytes: say ragged=True, so that "
                "the sizes travel too and are counted"
            )
    return by_kind


def _listed(kinds: list[str]) -> str:
    return ", ".join(kinds) or "nothing"


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


def require_received(summaries: list[dict[str, Summary]]) -> None:
    """Check that every message has been received.

    Args:
        summaries: of every worker, by channel.

    Raises:
        MethodError: a message has not; the error names its sender and receiver.
    """
    for key in {key for summary in summaries for key in summary}:
        members = [summary[key] for summary in summaries if key in summary]
        for source, sender in enumerate(members):
            for to, receiver in enumerate(members):
                sent, received = sender["sent"][to], receiver["received"][source]
                if sent != received:
                    raise MethodError(
                        f"rank {source} sent {sent} messages to rank {to} on run.{key.split('/')[0]}, which "
                        f"asked for {received}"
                    )
