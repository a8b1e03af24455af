"""What commands print. It may be lost, for example in a closed pipe, and never decides how a command ends."""

import os
import sys
from typing import Any, TextIO, cast


class _SafeStream:
    """A stream that discards its output as soon as writing fails."""

    def __init__(self, stream: TextIO, number: int) -> None:
        self._stream, self._number = stream, number

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except (OSError, ValueError):
            self._discard()
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except (OSError, ValueError):
            self._discard()

    def close(self) -> None:
        """Keep the stream open: the process may write to it after a plug-in has closed it."""

    def _discard(self) -> None:
        # The descriptor is redirected as well, so that writes past this object, or at exit, succeed.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        if nowhere != self._number:
            os.dup2(nowhere, self._number)
            os.close(nowhere)
        self._stream = open(self._number, "w", closefd=False)  # noqa: SIM115 - open as long as the process runs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def ignore_lost_output() -> None:
    """Let writes to stdout and stderr of this process always succeed, whatever becomes of their readers."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # Otherwise the next file that is opened would get this descriptor.
            os.open(os.devnull, os.O_RDWR)
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name) or open(number, "w", closefd=False)  # noqa: SIM115
        setattr(sys, name, cast(TextIO, _SafeStream(stream, number)))


def print_line(line: str) -> None:
    """Print a line about the progress, without a delay."""
    print(line, flush=True)
