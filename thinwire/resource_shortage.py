"""Resources that the machine lacks: disk space, memory, open files, threads, GPUs. Never a method's fault."""

import errno
import os
import traceback
from collections.abc import Callable, Iterator

from thinwire.errors import ResourceError, UserError, message_of
from thinwire.gpu_fault import gpu_fault

# The disk is full, over quota, read-only or broken; too many files or processes; too little memory.
_ERROR_NUMBERS = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.EIO,
    errno.ESTALE,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.EAGAIN,
)
# C++ libraries and the loader of shared objects report the same conditions in words of their own.
_PHRASES = (
    "can't allocate memory",
    "std::bad_alloc",
    "can't start new thread",
    "failed to map segment",
    *(os.strerror(number) for number in _ERROR_NUMBERS),
)


def shortage(
    error: BaseException, worded_by_plugin: Callable[[BaseException], bool] = lambda error: False
) -> ResourceError | None:
    """Return the lack of a resource that caused an error, as one sentence; None if that is not the cause.

    Args:
        error: that was raised.
        worded_by_plugin: does an error, or one of its causes, have the words of a plug-in? Then its words
            say nothing about the machine.
    """
    for each in _chain(error):
        if isinstance(each, ResourceError):
            return each
        if isinstance(each, OSError) and each.errno in _ERROR_NUMBERS:
            return _sentence(f"{each.strerror}{f', {each.filename}' if each.filename else ''}")
        if isinstance(each, MemoryError):
            return _sentence(os.strerror(errno.ENOMEM))
        if worded_by_plugin(each):
            continue
        if (fault := gpu_fault(each)) is not None:
            return ResourceError(
                f"a GPU cannot be used any more ({fault}): see nvidia-smi, free its memory or take another, "
                "and start again; a run goes on from its last checkpoint"
            )
        # Errors of pyarrow have no class of Python's above them but Exception.
        if isinstance(each, RuntimeError | ImportError | OSError) or type(each).__module__ == "pyarrow.lib":
            phrase = next((phrase for phrase in _PHRASES if phrase in str(each)), None)
            if phrase is not None:
                return _sentence(phrase)
    return None


def _sentence(what: str) -> ResourceError:
    return ResourceError(
        f"the machine has run short of something ({what}): free it or raise the limit, and start again; a "
        "run goes on from its last checkpoint"
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Give the error, its cause, the cause of that, and so on."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def trouble(error: BaseException) -> str:
    """Tell the user what to do about an error that ended a run and is not the result of its method.

    If the error is a fault of the engine, print its stack, which the user is asked to report.
    """
    if (short := shortage(error)) is not None:
        return str(short)
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, OSError):
        return f"the run cannot go on ({error}): mend that, and start again"
    traceback.print_exception(error)
    return f"thinwire itself has failed ({message_of(error)}): report it with the stack above"
