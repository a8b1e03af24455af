"""What is told to a user, and which errors are shortages or faults of a GPU."""

import errno
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor
from difflib import get_close_matches
from pathlib import Path

# A value that is quoted in a message is shortened to about this many characters: enough to find it.
_LONGEST_QUOTE = 80
# A message of a plug-in is published with so many characters at most.
_LONGEST_MESSAGE = 2000
# At most this many problems are listed in one message: a user who has corrected them tries again.
_MOST_PROBLEMS = 20


class UserError(Exception):
    """Bad input. The message is one clear sentence: what is wrong, where, and what to do."""

    known_to_all = False  # was it raised in all processes of the run?


class ResourceError(UserError):
    """The machine lacks something that the run needs. It is never a result of a method; no work is lost."""


class CannotWrite(ResourceError):
    """The disk is full, or writing is not permitted."""


class Problems(UserError):
    """Several problems in one message, each with the path of the value."""

    def __init__(self, where: str, found: list[str]) -> None:
        listed = "; ".join(found[:_MOST_PROBLEMS])
        if len(found) > _MOST_PROBLEMS:
            listed += f"; and {len(found) - _MOST_PROBLEMS:,} more"
        super().__init__(f"{where}: {listed}" if where else listed)
        self.found = found


class MethodError(UserError):
    """A method broke the contract: its module must be corrected."""


def quoted(value: object) -> str:
    """Return a value as Python writes it; if it is long, without its middle."""
    text = repr(value)
    if len(text) <= _LONGEST_QUOTE:
        return text
    half = _LONGEST_QUOTE // 2
    return f"{text[:half]}...{text[-half:]}"


def nearest(name: str, known: Iterable[str]) -> str:
    """The name that a person may have meant; there must be one."""
    return get_close_matches(name, known, n=1, cutoff=0.0)[0]


def printable(text: str, longest: int = _LONGEST_MESSAGE) -> str:
    """Return a text that UTF-8 can hold: lone surrogates are escaped, and a long text lacks its middle."""
    if len(text) > longest:
        text = f"{text[: longest // 2]} ... {text[-longest // 2 :]}"
    return text.encode(errors="backslashreplace").decode()


def in_one_line(text: str) -> str:
    """Return a text without line breaks, which the message of a plug-in's error may have."""
    return " ".join(text.split())


def message_of(error: BaseException) -> str:
    """Return the class and the message of an error, as `printable`; the code of a plug-in may write it."""
    try:
        text = str(error)
    except Exception as own:
        text = f"its message cannot be read ({type(own).__name__})"
    return f"{type(error).__name__}: {printable(text)}"


def line_of(error: BaseException, path: Path) -> int | None:
    """Return the line of a file in which an error arose; None if the file has no part in it."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename == str(path):
            return frame.lineno
    return None


# The program's own fault: an index that is out of range, or a wrong argument of a library. They are reported
# like faults of the GPU.
_OF_THE_PROGRAM = (
    "device-side assert triggered",
    "_STATUS_BAD_PARAM",
    "_STATUS_INVALID_VALUE",
    "_STATUS_NOT_SUPPORTED",
)
# Libraries of CUDA report that memory is short, or that the GPU does not work, as plain RuntimeErrors.
_GPU_PHRASES = (
    # Of cuBLAS, cuDNN, cuSOLVER and cuSPARSE, such as CUBLAS_STATUS_ALLOC_FAILED.
    "_STATUS_ALLOC_FAILED",
    "_STATUS_ARCH_MISMATCH",
    "_STATUS_EXECUTION_FAILED",
    "_STATUS_INTERNAL_ERROR",
    "_STATUS_MAPPING_ERROR",
    "_STATUS_NOT_INITIALIZED",
    "CUDA driver error",
    "CUDA driver initialization failed",
    "CUDA error: ",
    "CUDA unknown error",
    "Found no NVIDIA driver on your system",
    "NVML_SUCCESS ==",
    "No CUDA GPUs are available",
    "The NVIDIA driver on your system is too old",
    "Unexpected error from cudaGetDeviceCount",
    "cuDNN version incompatibility",
    "ncclUnhandledCudaError",
    # A convolution for which there is too little memory.
    "Unable to find a valid cuDNN algorithm",
    "was unable to find an engine to execute this computation",
)


def gpu_fault(error: BaseException) -> str | None:
    """Return the first sentences of an error that is a fault of a GPU; None for all other errors."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(error, RuntimeError):
        return None
    text = str(error)
    of_torch = isinstance(error, torch.AcceleratorError | torch.OutOfMemoryError)
    found = of_torch or any(phrase in text for phrase in _GPU_PHRASES)
    found = found and not any(phrase in text for phrase in _OF_THE_PROGRAM)
    line = next(iter(text.splitlines()), type(error).__name__)
    # Of full memory torch says in three sentences what was asked for and what is free. Advice follows.
    return ". ".join(line.split(". ")[:3]) if found else None


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

    The words of an error say nothing about the machine if they are `worded_by_plugin`.
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
        if isinstance(each, BrokenExecutor):
            return ResourceError(
                "a process was killed, probably because memory ran out: free memory, or let fewer processes "
                "work at once (--jobs, where the command has it), and start again"
            )
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
