"""Errors of connections: another process can no longer be reached."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch.distributed as dist

from thinwire.resource_shortage import shortage

# gloo raises plain RuntimeErrors, which begin with the file of its source.
_GLOO = "gloo/"


class ConnectionLost(Exception):
    """Another process has ended or does not answer."""


@contextmanager
def translated_errors() -> Iterator[None]:
    """Translate the errors of connections inside this block, which calls torch.distributed.

    Errors of other kinds stay as they are, for example of a tensor on the wrong device.

    Raises:
        ConnectionLost: another process has ended.
        ResourceError: this machine is short of something.
    """
    try:
        yield
    except RuntimeError as error:
        if (short := shortage(error)) is not None:
            raise short from error
        if not isinstance(error, dist.DistError) and _GLOO not in str(error):
            raise
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ConnectionLost(first) from error
