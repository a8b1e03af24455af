"""Variables of the environment that hold for a while, also in processes that are started meanwhile."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def variable(name: str, value: str) -> Iterator[None]:
    """Let a variable have this value meanwhile. Afterwards it is as it was: it may have been missing."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before
