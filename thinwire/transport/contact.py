"""When another process cannot be reached any more."""

from collections.abc import Iterator
from contextlib import contextmanager


class LostContact(Exception):
    """Another process has ended, or does not answer."""


@contextmanager
def contact() -> Iterator[None]:
    """Around operations of torch.distributed: what they raise says that another process is gone."""
    try:
        yield
    except RuntimeError as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise LostContact(first) from error
