"""`thinwire COMMAND ...`.

Exit codes:

- 0: success
- 1: a run failed and has its record, a method breaks the contract, or a record does not verify or repeat.
  `thinwire train` exits with 0 then: for the pipeline, a failed run is a result.
- 2: bad input, or a problem outside a run that must be fixed; one sentence says what
- 3: a rank could not go on, and has said why
- 128 + N: interrupted by signal N
"""

import io
import os
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Never, TextIO, cast

from thinwire.base import folders
from thinwire.base.errors import UserError, shortage
from thinwire.base.signals import interrupts_ending_at_once
from thinwire.cli.arguments import parser

# The commands of each module in this folder: COMMAND is its function `COMMAND_main`.
_COMMANDS = {
    "plugins_and_suites": "list show new cells schema data prepare",
    "check": "check",
    "run": "run emulate train",
    "slurm_task": "slurm_task",
    "simulate": "simulate times hsgd_ratio plan",
    "results": "collect report paper claims tuned cite page verify archive rebuild compare track "
    "wandb-report",
    "trace": "schedule trace",
    "submissions": "reproduce submit score",
}
_MODULE = {command: module for module, commands in _COMMANDS.items() for command in commands.split()}


def main() -> Never:
    """Run the command that was given, and exit."""
    ignore_lost_output()
    # For an error of a socket torch prints a page with its stack. thinwire prints one sentence.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
    try:
        arguments = parser().parse_args()
        if arguments.plugins is not None:
            os.environ[folders.VARIABLE] = str(Path(arguments.plugins).absolute())
        # Processes that are started, and methods that change the working folder, keep it.
        os.environ.update(folders.environment())
        # Imported only when it is needed, because importing torch takes seconds.
        with interrupts_ending_at_once():
            module = import_module(f"thinwire.cli.{_MODULE[arguments.command]}")
        sys.exit(getattr(module, f"{arguments.command.replace('-', '_')}_main")(arguments))
    except UserError as error:
        print(f"thinwire: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("thinwire: interrupted", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)
    except Exception as error:
        if (short := shortage(error)) is None:
            raise
        print(f"thinwire: {short}", file=sys.stderr)
        sys.exit(2)


class _SafeStream:
    """A stream that discards its output as soon as writing fails, for example because its pipe is closed."""

    def __init__(self, stream: TextIO, number: int) -> None:
        if isinstance(stream, io.TextIOWrapper):
            # A sign that the locale does not have is no reason to lose the output.
            stream.reconfigure(errors="backslashreplace")
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

    def __getattr__(self, name: str) -> object:
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
