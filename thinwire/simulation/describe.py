"""Schedules in words."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate

from thinwire.simulation.program import Compute, Post, Step, Wait
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
        kind = next((kind for kind in found if _alike(events, kind[0][1])), None)
        if kind is None:
            found.append(kind := [])
        kind.append((number, events))
    return [KindOfStep(numbers, tuple(zip(*events))) for numbers, events in (zip(*kind) for kind in found)]


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
    return len(events) == len(others) and all(map(_same, events, others))


def _same(event: Event, other: Event) -> bool:
    if not (isinstance(event, Post) and isinstance(other, Post)):
        return event == other
    one, two = ((post.verb, post.channel, len(post.members), post.ragged) for post in (event, other))
    factor = SIZE_FACTOR if event.ragged else 1.0
    sizes = ((event.sent_bytes, other.sent_bytes), (event.received_bytes, other.received_bytes))
    return one == two and all(max(pair) <= factor * min(pair) for pair in sizes)


def repeats(keys: list[object], longest: int) -> Iterable[tuple[int, int, int]]:
    """Divide a sequence into runs of repeated patterns, up to a length: begin, length and number of each."""
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


# The longest pattern of events that is printed once, with the number of its repetitions.
_LONGEST_PATTERN = 4
_WIDTH = 12
# At most this many ranks are listed one by one.
_LISTED = 6


def describe(kind: KindOfStep) -> Iterator[str]:
    """The lines of a kind of step; events that repeat are summed up."""
    # Of each event: how many calls have been handed over by then, itself included.
    calls = [*accumulate(int(isinstance(alike[0], Post)) for alike in kind.events)]
    keys = [_key(alike[0]) for alike in kind.events]
    for begin, length, count in repeats(keys, _LONGEST_PATTERN):
        indent = ""
        if length > 1 and count > 1:
            yield f"{count} times:"
            indent = "  "
        for place in range(begin, begin + length):
            numbers = range(place, place + length * count, length)
            columns = [kind.events[number] for number in numbers]
            yield indent + _line(columns, [calls[number] for number in numbers])


def _key(event: Event) -> object:
    """Events with the same key are summed up if they follow each other."""
    if isinstance(event, Post):
        return (event.verb, event.channel, event.ragged)
    return event.kind if isinstance(event, Computed) else (Answered, event.steps_ago)


def _line(columns: list[tuple[Event, ...]], calls: list[int]) -> str:
    """A line about events that are alike, each as it is in every step; calls have these numbers."""
    first, events = columns[0][0], [column[0] for column in columns]
    if isinstance(first, Computed):
        names = [name for event in events if isinstance(event, Computed) for name in event.names]
        few = len(set(names)) <= 2
        shown = ", ".join(dict.fromkeys(names)) if few else f"{names[0]} ... {names[-1]} ({len(names)})"
        return f"{first.kind:{_WIDTH}}{shown}"
    if isinstance(first, Answered):
        numbers = [event.number for event in events if isinstance(event, Answered)]
        return f"{'wait':{_WIDTH}}for {_calls(numbers)}{_ago(first.steps_ago)}"
    posts = [[event for event in column if isinstance(event, Post)] for column in columns]
    return f"{_calls(calls):{_WIDTH}}{_post(posts)}"


def _calls(numbers: list[int]) -> str:
    return f"call {numbers[0]}" if len(numbers) == 1 else f"calls {ranges(numbers)}"


def _ago(steps: int) -> str:
    if not steps:
        return ""
    return " of the step before" if steps == 1 else f" of {steps} steps before"


def _post(posts: list[list[Post]]) -> str:
    """What is handed over and received in calls that follow each other, each as it is in every step."""
    first = posts[0][0]
    sent = _bytes([sum(post.sent_bytes for post in step) for step in zip(*posts)])
    received = _bytes([sum(post.received_bytes for post in step) for step in zip(*posts)])
    ranks = sorted({post.partner for column in posts for post in column})
    partners = f"rank{'s' if len(ranks) > 1 else ''} {ranges(ranks)}"
    sizes = {
        "mean": sent,
        "broadcast": f"{sent} from {partners}",
        "push_pull": f"{sent} to {partners}, {received} back",
        "gather": f"{sent} to all others, {received} from them",
        "send": f"{sent} to {partners}",
        "receive": f"{received} from {partners}",
    }
    ragged = "ragged " if first.ragged else ""
    return f"{ragged}{first.verb} on {first.channel} of {len(first.members)}: {sizes[first.verb]}"


def _bytes(sizes: list[int]) -> str:
    """The bytes in every step, or the least and the most."""
    least, most = min(sizes), max(sizes)
    return f"{least:,} bytes" if least == most else f"{least:,} to {most:,} bytes"


def ranges(numbers: Iterable[int]) -> str:
    """Rising numbers, with a dash where several follow each other; in the middle of many, dots."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    words = [f"{first}" if first == last else f"{first}-{last}" for first, last in runs]
    if len(words) > _LISTED:
        words = [*words[: _LISTED - 1], "...", words[-1]]
    return ", ".join(words)
