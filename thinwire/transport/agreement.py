"""Do all workers make the same calls?"""

from collections import deque
from typing import TypedDict
from zlib import crc32

from thinwire.call import Call
from thinwire.errors import MethodError
from thinwire.traffic.payload import Payload, describe
from thinwire.transport import metering

# Calls that can still be told in words when the workers turn out not to agree.
REMEMBERED = 200


def agreed(payloads: list[Payload], ragged: bool) -> dict[str, list[int]]:
    """What each member hands over in bytes, by kind, with the sizes of ragged payloads.

    Raises:
        MethodError: they do not hand over the same, and have not said that it may differ.
    """
    first = describe(payloads[0], ragged=True)
    for rank, payload in enumerate(payloads):
        if (other := describe(payload, ragged=True)) != first:
            raise MethodError(
                f"rank 0 hands over {_listed(first)}, and rank {rank} {_listed(other)}: hand over the same "
                "kinds in the same order and of the same types, and an empty tensor where there is nothing"
            )
    each = [metering.sizes(payload, ragged) for payload in payloads]
    by_kind = {kind: [sizes[kind] for sizes in each] for kind in each[0]}
    for kind, sizes in by_kind.items():
        if len(set(sizes)) > 1 and not ragged:
            raise MethodError(
                f"the workers hand over {kind} of different sizes, {sizes} bytes: say ragged=True, so that "
                "the sizes travel too and are counted"
            )
    return by_kind


def _listed(words: list[str]) -> str:
    return ", ".join(words) or "nothing"


class CallLog:
    """What one worker has called on one channel: number and digest of all calls, the last ones in words."""

    def __init__(self) -> None:
        self.count = 0
        self.digest = 0
        self._last: deque[str] = deque(maxlen=REMEMBERED)

    def note(self, call: Call) -> str:
        """Enter a call; gives it in words."""
        words = call.describe()
        shapes = [tuple(tensor.shape) for tensor in call.tensors]
        self.count += 1
        self.digest = crc32(f"{words}{shapes}".encode(), self.digest)
        self._last.append(words)
        return words

    def last(self) -> dict[str, str]:
        """The calls that are remembered, by number, from 1."""
        first = self.count - len(self._last) + 1
        return {str(first + i): words for i, words in enumerate(self._last)}


def first_difference(logs: dict[int, dict[str, str]]) -> str | None:
    """Where the calls of some workers part, in words, from the `last` of each by rank; None if nowhere.

    A worker that has not got as far yet does not disagree.
    """
    for number in sorted({number for log in logs.values() for number in log}, key=int):
        said = {rank: log[number] for rank, log in logs.items() if number in log}
        first = next(iter(said))
        for rank, words in said.items():
            if words != said[first]:
                return f"call {number}: rank {first} calls {said[first]} and rank {rank} calls {words}"
    return None


class Summary(TypedDict):
    """What a worker tells its mates of one channel, to be compared."""

    calls: list[int]  # number and digest
    sent: list[int]  # messages, by receiver
    received: list[int]  # messages, by sender


def disagreeing(heard: list[dict[str, Summary]]) -> str | None:
    """A channel on which the workers have not made the same calls, from what each tells by channel."""
    for key in {key for said in heard for key in said}:
        if len({tuple(said[key]["calls"]) for said in heard if key in said}) > 1:
            return key
    return None


def require_received(heard: list[dict[str, Summary]]) -> None:
    """Every message has been received.

    Raises:
        MethodError: naming one that was not.
    """
    for key in {key for said in heard for key in said}:
        members = [said[key] for said in heard if key in said]
        for source, sender in enumerate(members):
            for to, receiver in enumerate(members):
                sent, received = sender["sent"][to], receiver["received"][source]
                if sent != received:
                    raise MethodError(
                        f"rank {source} sent {sent} messages to rank {to} on run.{key.split('/')[0]}, which "
                        f"asked for {received}"
                    )
