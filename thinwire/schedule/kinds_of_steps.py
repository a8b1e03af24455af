"""The distinct kinds of steps in a schedule: what a person reads of them, and how often each occurs."""

from collections.abc import Iterable
from dataclasses import dataclass

from thinwire.schedule.operations import Compute, Post, Step, Wait
from thinwire.trace.recorder import HARNESS, METHOD

# By what factor the sizes of a ragged payload may differ in steps of one kind.
SIZE_FACTOR = 2.0


@dataclass(frozen=True)
class Computed:
    """Consecutive spans of one kind."""

    kind: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Answered:
    """The worker waits for the answer to a call."""

    steps_ago: int  # since the call was handed over
    number: int  # of the call in its step, from 1


Event = Computed | Post | Answered


@dataclass(frozen=True)
class KindOfStep:
    """Steps with the same events. Partners may differ, and the sizes of ragged payloads by `SIZE_FACTOR`."""

    numbers: tuple[int, ...]  # of the steps, from 0
    events: tuple[tuple[Event, ...], ...]  # the events of a step in their order, each as it is in every step


def kinds_of_steps(steps: list[Step]) -> list[KindOfStep]:
    """The kinds of steps, in the order of their first step."""
    places = _places(steps)
    found: list[list[tuple[int, list[Event]]]] = []
    for number, step in enumerate(steps):
        events = _events(step, number, places)
        for kind in found:
            if _alike(events, kind[0][1]):
                kind.append((number, events))
                break
        else:
            found.append([(number, events)])
    return [
        KindOfStep(
            numbers=tuple(number for number, _ in kind),
            events=tuple(zip(*(events for _, events in kind))),
        )
        for kind in found
    ]


def _places(steps: list[Step]) -> dict[int, tuple[int, int]]:
    """Of each call: its step, and its number there, from 1."""
    return {
        post.call: (number, place)
        for number, step in enumerate(steps)
        for place, post in enumerate((op for op in step if isinstance(op, Post)), 1)
    }


def _events(step: Step, number: int, places: dict[int, tuple[int, int]]) -> list[Event]:
    """What a person reads of a step: nothing of the harness, nor the method's own code between its calls."""
    events: list[Event] = []
    for operation in step:
        if isinstance(operation, Compute):
            if operation.kind in (HARNESS, METHOD) or not operation.name:
                continue
            last = events[-1] if events else None
            if isinstance(last, Computed) and last.kind == operation.kind:
                events[-1] = Computed(last.kind, (*last.names, operation.name))
            else:
                events.append(Computed(operation.kind, (operation.name,)))
        elif isinstance(operation, Wait):
            made, place = places[operation.call]
            events.append(Answered(number - made, place))
        else:
            events.append(operation)
    return events


def _alike(events: list[Event], others: list[Event]) -> bool:
    """Do steps with these events belong to one kind?"""
    if len(events) != len(others):
        return False
    for event, other in zip(events, others):
        if isinstance(event, Post) and isinstance(other, Post):
            if not _same_call(event, other):
                return False
        elif event != other:
            return False
    return True


def _same_call(post: Post, other: Post) -> bool:
    one, two = ((p.verb, p.channel, len(p.members), p.ragged) for p in (post, other))
    factor = SIZE_FACTOR if post.ragged else 1.0
    sizes = ((post.sent_bytes, other.sent_bytes), (post.received_bytes, other.received_bytes))
    return one == two and all(max(pair) <= factor * min(pair) for pair in sizes)


def repeats(keys: list[object], longest: int) -> Iterable[tuple[int, int, int]]:
    """Divide a sequence into runs of repeated patterns: the begin, the length and the number of each.

    Args:
        keys: equal entries are alike.
        longest: the length of the longest pattern that is looked for.
    """
    begin = 0
    while begin < len(keys):
        best = (1, 1)
        for length in range(1, min(longest, (len(keys) - begin) // 2) + 1):
            pattern, count = keys[begin : begin + length], 1
            while keys[begin + count * length : begin + (count + 1) * length] == pattern:
                count += 1
            if count > 1 and count * length > best[0] * best[1]:
                best = (length, count)
        length, count = best
        yield begin, length, count
        begin += length * count
