"""Bad input, or Ctrl-C while Snakemake plans, ends snakemake with one sentence and no traceback."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from thinwire.errors import UserError


@contextmanager
def exit_on_error() -> Iterator[None]:
    """End the process with the sentence of a `UserError` that the block raises."""
    sys.excepthook = _print_error
    try:
        yield
    except UserError as error:
        sys.exit(f"thinwire: {error}")


def _print_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        print("thinwire: interrupted", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)
