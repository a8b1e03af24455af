"""What went wrong, for the person who can mend it."""

from typing import Any

# Of a value that is repeated to the user: enough to find it again.
_LONGEST_QUOTE = 80
# Of problems that are listed in one sentence: whoever has mended so many tries again.
_MOST_PROBLEMS = 20


class UserError(Exception):
    """Bad input. The message is one clear sentence: what is wrong, where, and what to do."""

    known_to_all = False  # has it been raised in all processes of a run?


class ResourceError(UserError):
    """Something around the run is short or missing: never a result of a method, and nothing is lost."""


class CannotWrite(ResourceError):
    """The disk is full, or may not be written to."""


class Problems(UserError):
    """Several things at once, each with the path of the value."""

    def __init__(self, where: str, found: list[str]) -> None:
        said = "; ".join(found[:_MOST_PROBLEMS])
        if len(found) > _MOST_PROBLEMS:
            said += f"; and {len(found) - _MOST_PROBLEMS:,} more"
        super().__init__(f"{where}: {said}" if where else said)
        self.found = found


class MethodError(UserError):
    """A method broke the contract: its module must be mended."""


def quoted(value: Any) -> str:
    """A value as Python writes it, cut in the middle where it is long."""
    text = repr(value)
    if len(text) <= _LONGEST_QUOTE:
        return text
    half = _LONGEST_QUOTE // 2
    return f"{text[:half]}...{text[-half:]}"
