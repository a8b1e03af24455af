"""Work that each process of a run does by itself: an error in one process is raised in all of them."""

from collections.abc import Iterator
from contextlib import contextmanager

from thinwire.errors import CannotWrite, MethodError, UserError
from thinwire.plugins import PluginError
from thinwire.transport.transport import Transport

_ERRORS = {error.__name__: error for error in (CannotWrite, MethodError, PluginError)}


@contextmanager
def all_or_none(transport: Transport) -> Iterator[None]:
    """Wrap work that each process does by itself; all processes enter it together.

    Raises:
        UserError: in all processes, marked as `known_to_all`; an error of another process names its rank.
    """
    error = None
    try:
        yield
    except UserError as own:
        error = own
    summary = None if error is None else [type(error).__name__, str(error)]
    errors = transport.share([summary for _ in transport.ranks])
    if error is None:
        first = next(((rank, each) for rank, each in enumerate(errors) if each is not None), None)
        if first is None:
            return
        rank, (name, text) = first
        error = _ERRORS.get(name, UserError)(f"rank {rank}: {text}")
    error.known_to_all = True
    raise error
