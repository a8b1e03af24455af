"""Do all workers make the same calls?"""

from collections import deque
from typing import TypedDict
from zlib import crc32

from thinwire.channel import Call
from thinwire.errors import MethodError

# Calls that can still be told in words when the workers turn out not to agree.
REMEMBERED = 200


def agreed(each: list[dict[str, int]], ragged: bool) -> dict[str, list[int]]:
    """What each member hands over, in bytes by kind, turned round: by kind, what each hands over.

    Raises:
        MethodError: they do not hand over the same, and have not said that it may differ.
    """
    for kind in {kind for sizes in each for kind in sizes}:
        here = [sizes[kind] for sizes in each if kind in sizes]
        if len(here) != len(each):
            raise MethodError(f"not every worker hands over {kind!r}; hand over an empty tensor instead")
        if len(set(here)) > 1 and not ragged:
            raise MethodError(
                f"the workers hand over {kind} of different sizes, {here} bytes: say ragged=True, so that "
                "the sizes travel too and are counted"
            )
    return {kind: [sizes[kind] for sizes in each] for kind in each[0]}


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
