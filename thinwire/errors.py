"""Errors whose messages tell the user what is wrong and what to do."""

# A value that is quoted in a message is shortened to about this many characters: enough to find it.
_LONGEST_QUOTE = 80
# A message of a plug-in is published with so many characters at most.
_LONGEST_MESSAGE = 2000
# At most this many problems are listed in one message: a user who has corrected them tries again.
_MOST_PROBLEMS = 20


class UserError(Exception):
    """Bad input. The message is one clear sentence: what is wrong, where, and what to do."""

    known_to_all = False  # was it raised in all processes of the run?


class ResourceError(UserError):
    """The machine lacks something that the run needs. It is never a result of a method; no work is lost."""


class CannotWrite(ResourceError):
    """The disk is full, or writing is not permitted."""


class Problems(UserError):
    """Several problems in one message, each with the path of the value."""

    def __init__(self, where: str, found: list[str]) -> None:
        listed = "; ".join(found[:_MOST_PROBLEMS])
        if len(found) > _MOST_PROBLEMS:
            listed += f"; and {len(found) - _MOST_PROBLEMS:,} more"
        super().__init__(f"{where}: {listed}" if where else listed)
        self.found = found


class MethodError(UserError):
    """A method broke the contract: its module must be corrected."""


def quoted(value: object) -> str:
    """Return a value as Python writes it; if it is long, without its middle."""
    text = repr(value)
    if len(text) <= _LONGEST_QUOTE:
        return text
    half = _LONGEST_QUOTE // 2
    return f"{text[:half]}...{text[-half:]}"


def printable(text: str, longest: int = _LONGEST_MESSAGE) -> str:
    """Return a text that UTF-8 can hold: lone surrogates are escaped, and a long text lacks its middle."""
    if len(text) > longest:
        text = f"{text[: longest // 2]} ... {text[-longest // 2 :]}"
    return text.encode(errors="backslashreplace").decode()


def message_of(error: BaseException) -> str:
    """Return the class and the message of an error, as `printable`; the code of a plug-in may write it."""
    try:
        text = str(error)
    except Exception as own:
        text = f"its message cannot be read ({type(own).__name__})"
    return f"{type(error).__name__}: {printable(text)}"
