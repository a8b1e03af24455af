"""Whose fault an error is, and how all ranks learn of it."""

import dis
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from thinwire.base import folders
from thinwire.base.errors import CannotWrite, MethodError, UserError, message_of, shortage
from thinwire.plugins import CLASS, PACKAGE, PluginError, show
from thinwire.transport.interface import Transport


def blame(error: BaseException) -> str | None:
    """Describe an error that is the fault of a plug-in, with its line; None if it is not a plug-in's fault.

    A plug-in is to blame for most errors, even if none of its code is in the stack (for example in autograd).
    There are three exceptions. A `UserError` or a request to end the process is a plug-in's fault only if its
    code is in the stack. An `OSError` is its fault only if its own code called the system. A lack of
    resources never is.
    """
    if shortage(error, _raised_by_plugin) is not None:
        return None
    ours = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_ours(frame)]
    last = next((frame for frame in reversed(ours) if _in_plugin(frame.filename)), None)
    if last is None and (isinstance(error, UserError | OSError) or not isinstance(error, Exception)):
        return None
    if isinstance(error, OSError) and last is not ours[-1]:
        return None
    place = f" ({show(Path(last.filename))}, line {last.lineno})" if last is not None else ""
    return f"{message_of(error)}{place}"


def _raised_by_plugin(error: BaseException) -> bool:
    """Does the error come from a `raise` statement of a plug-in, and not from something that it called?"""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    code = trace.tb_frame.f_code
    return _in_plugin(code.co_filename) and code.co_code[trace.tb_lasti] == dis.opmap["RAISE_VARARGS"]


def _in_plugin(file: str) -> bool:
    places = [folder / f"{kind}s" for folder in folders.every() for kind in CLASS]
    return any(Path(file).is_relative_to(place) for place in places)


def _is_ours(frame: traceback.FrameSummary) -> bool:
    """Does the frame belong to the engine or to a plug-in, and not to a library?"""
    return _in_plugin(frame.filename) or Path(frame.filename).is_relative_to(PACKAGE)


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
