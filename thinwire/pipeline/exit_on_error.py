"""Bad input ends snakemake with one sentence and no traceback."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from thinwire.errors import UserError


@contextmanager
def exit_on_error() -> Iterator[None]:
    """End the process with the sentence of a `UserError` that the block raises."""
    try:
        yield
    except UserError as error:
        sys.exit(f"thinwire: {error}")
