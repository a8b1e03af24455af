"""Errors of connections: another process can no longer be reached."""

from collections.abc import Iterator
from contextlib import contextmanager

from thinwire.resource_shortage import shortage


class ConnectionLost(Exception):
    """Another process has ended or does not answer."""


@contextmanager
def translated_errors() -> Iterator[None]:
    """Translate the errors of operations of torch.distributed inside this block.

    Raises:
        ConnectionLost: another process has ended.
        ResourceError: this machine is short of something.
    """
    try:
        yield
    except RuntimeError as error:
        if (short := shortage(error)) is not None:
            raise short from error
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ConnectionLost(first) from error
