"""A kind of step in words, a line for each event."""

from collections.abc import Iterable, Iterator

from thinwire.schedule.kinds_of_steps import Answered, Computed, Event, KindOfStep, repeats
from thinwire.schedule.operations import Post

# The longest pattern of events that is printed once, with the number of its repetitions.
_LONGEST_PATTERN = 4
_WIDTH = 12
# At most this many ranks are listed one by one.
_LISTED = 6


def describe(kind: KindOfStep) -> Iterator[str]:
    """The lines of a kind of step; events that repeat are summed up."""
    calls = _numbers_of_calls(kind)
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


def _numbers_of_calls(kind: KindOfStep) -> list[int]:
    """Of each event: how many calls have been handed over by then, itself included."""
    numbers, calls = [], 0
    for alike in kind.events:
        calls += isinstance(alike[0], Post)
        numbers.append(calls)
    return numbers


def _key(event: Event) -> object:
    """Events with the same key are summed up if they follow each other."""
    if isinstance(event, Post):
        return (event.verb, event.channel, event.ragged)
    return event.kind if isinstance(event, Computed) else (Answered, event.steps_ago)


def _line(columns: list[tuple[Event, ...]], calls: list[int]) -> str:
    """A line about one event, or about several that are alike.

    Args:
        columns: each event as it is in every step.
        calls: their numbers, if they are calls.
    """
    first = columns[0][0]
    if isinstance(first, Computed):
        names = [name for column in columns for event in column[:1] for name in _names(event)]
        return f"{first.kind:{_WIDTH}}{_of(names)}"
    if isinstance(first, Answered):
        waits = [event for column in columns for event in column[:1] if isinstance(event, Answered)]
        return f"{'wait':{_WIDTH}}for {_calls([event.number for event in waits])}{_ago(first.steps_ago)}"
    posts = [[event for event in column if isinstance(event, Post)] for column in columns]
    return f"{_calls(calls):{_WIDTH}}{_post(posts)}"


def _names(event: Event) -> tuple[str, ...]:
    return event.names if isinstance(event, Computed) else ()


def _of(names: list[str]) -> str:
    """The first and the last name, and how many there are between."""
    if len(set(names)) <= 2:
        return ", ".join(dict.fromkeys(names))
    return f"{names[0]} ... {names[-1]} ({len(names)})"


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
    partners = _ranks({post.partner for column in posts for post in column})
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


def _ranks(partners: set[int]) -> str:
    return f"rank{'s' if len(partners) > 1 else ''} {ranges(sorted(partners))}"


def _bytes(sizes: Iterable[int]) -> str:
    """The bytes in every step, or the least and the most."""
    least, most = min(sizes := list(sizes)), max(sizes)
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
