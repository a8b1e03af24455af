"""The options that a method itself names for tuning, in the class attribute `tunes`."""

from thinwire import plugins
from thinwire.config.ranges import Range
from thinwire.config.suite_schema import Entry
from thinwire.errors import UserError
from thinwire.plugins import show

# With more of them a method would have more to gain from the same number of trials.
MOST_OPTIONS = 2


def tunes(label: str, entry: Entry) -> dict[str, list[float]]:
    """The ends of the range of each option that is drawn. An option that the entry sets is not drawn.

    Raises:
        UserError: the attribute is not as `thinwire.Method.tunes` explains.
    """
    plugin = plugins.get("method", entry.use or label)
    named = plugin.literal("tunes") or {}
    if not (len(named) <= MOST_OPTIONS and all(map(_valid, named.items()))):
        raise UserError(
            f"{show(plugin.path)}: tunes names at most {MOST_OPTIONS} options, each with the "
            'two ends of its range, which are positive and rise: {"clip": (0.1, 10.0)}'
        )
    return {name: list(ends) for name, ends in named.items() if name not in entry.options}


def ranges(drawn: dict[str, list[float]]) -> dict[str, Range]:
    """The ranges of these options, on a logarithmic scale."""
    return {name: Range(low, high) for name, (low, high) in drawn.items()}


def _valid(item: tuple[object, object]) -> bool:
    name, ends = item
    if not (isinstance(name, str) and isinstance(ends, tuple | list) and len(ends) == 2):
        return False
    return all(type(end) in (int, float) for end in ends) and 0 < ends[0] < ends[1] < float("inf")
