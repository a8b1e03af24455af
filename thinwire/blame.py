"""Whose fault is an error: a plug-in's, or somebody else's?"""

import dis
import traceback
from pathlib import Path

from thinwire.errors import UserError, message_of
from thinwire.plugins import CLASS, PACKAGE, ROOT, show
from thinwire.resource_shortage import shortage


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
    return any(Path(file).is_relative_to(ROOT / f"{kind}s") for kind in CLASS)


def _is_ours(frame: traceback.FrameSummary) -> bool:
    """Does the frame belong to the engine or to a plug-in, and not to a library?"""
    return _in_plugin(frame.filename) or Path(frame.filename).is_relative_to(PACKAGE)
