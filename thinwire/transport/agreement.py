"""Whether all workers make the same calls and receive every message.

In one process each call is checked when its last member has made it. Between processes a call costs only a
short digest, and the workers compare their digests now and then. To say which call differs, the calls must be
kept in words. That takes longer than many a call, so it is done only for a worker that is being checked.
"""

from collections import deque
from typing import TypedDict
from zlib import crc32

from thinwire.base.errors import MethodError
from thinwire.traffic import payload as payloads
from thinwire.traffic.payload import nbytes
from thinwire.transport.call import Call, Group

# How many of the last calls are kept in words.
REMEMBERED = 200


class Summary(TypedDict):
    """What one worker has done on one channel; the members compare their summaries."""

    calls: list[int]  # number and digest
    sent: list[int]  # messages, by receiver
    received: list[int]  # messages, by sender


class CallLog:
    """The calls of one worker on one channel: number and digest, and perhaps the last ones in words."""

    def __init__(self, in_words: bool) -> None:
        self.count = 0
        self.digest = 0
        self._in_words = in_words
        self._last: deque[str] = deque(maxlen=REMEMBERED)

    def note(self, call: Call) -> None:
        words = call.describe(self._in_words)
        if self._in_words:
            self._last.append(words)
            carries = str([tuple(tensor.shape) for tensor in call.tensors])
        else:
            described = payloads.describe(call.payload, call.ragged)
            carries = f"{len(call.tensors)} {nbytes(call.tensors)} {described}"
        self.count += 1
        self.digest = crc32(f"{words}{carries}".encode(), self.digest)

    def last(self) -> dict[str, str]:
        """Return the last calls in words, by number, if they are kept; the first call has number 1."""
        first = self.count - len(self._last) + 1
        return {str(first + i): words for i, words in enumerate(self._last)}


def disagreeing(summaries: list[dict[str, Summary]]) -> str | None:
    """A channel on which the workers have not made the same calls; None if there is none.

    Here and below, `summaries` has those of every worker, by channel.
    """
    for key in sorted({key for summary in summaries for key in summary}):
        if len({tuple(summary[key]["calls"]) for summary in summaries if key in summary}) > 1:
            return key
    return None


def first_difference(logs: dict[int, dict[str, str]]) -> str | None:
    """Describe the first call in which workers differ; None if there is none.

    A worker that has not made as many calls yet does not count as different.

    `logs` has what `CallLog.last` returned on each worker, by rank.
    """
    for number in sorted({number for log in logs.values() for number in log}, key=int):
        calls = {rank: log[number] for rank, log in logs.items() if number in log}
        first = next(iter(calls))
        for rank, call in calls.items():
            if call != calls[first]:
                return f"call {number}: rank {first} calls {calls[first]} and rank {rank} calls {call}"
    return None


def require_received(summaries: list[dict[str, Summary]]) -> None:
    """Raise a MethodError that names sender and receiver if a message has not been received."""
    for key in sorted({key for summary in summaries for key in summary}):
        members = [summary[key] for summary in summaries if key in summary]
        for source, sender in enumerate(members):
            for to, receiver in enumerate(members):
                sent, received = sender["sent"][to], receiver["received"][source]
                if sent != received:
                    raise MethodError(
                        f"rank {source} sent {sent} messages to rank {to} on run.{key.split('/')[0]}, which "
                        f"asked for {received}"
                    )


def require_same_call(group: Group, number: int, calls: list[Call]) -> None:
    """Raise a MethodError if the members, all of them in this process, have made different calls."""
    first = calls[0]
    expected = _must_agree(first)
    for rank, call in enumerate(calls[1:], 1):
        if _must_agree(call) != expected:
            raise MethodError(
                f"call {number + 1} on run.{group.name} does not agree: rank 0 calls "
                f"{first.describe()} and rank {rank} calls {call.describe()}"
            )


def _must_agree(call: Call) -> tuple[object, ...]:
    """Everything in which the calls of all members must agree."""
    layout = [(tensor.shape, tensor.dtype) for tensor in call.tensors]
    series = None if call.together is None else (call.together.reduces, call.place)
    return call.verb, call.kind, call.partner, call.key, call.ragged, series, layout
