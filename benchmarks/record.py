"""Run a benchmark, and with `--record` keep what it printed.

A record is `benchmarks/records/DATE/NAME.txt`. Lines that begin with `#` give date, machine, system, commit
and load. Then come the command, what it printed, and its exit code. `benchmarks/update_docs.py` puts
records into the documentation.
"""

import argparse
import contextlib
import inspect
import io
import os
import platform
import shlex
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import torch

from thinwire.records.provenance import git_state, processor

FOLDER = Path(__file__).parent / "records"


def run(
    main: Callable[[argparse.Namespace], int],
    options: Callable[[argparse.ArgumentParser], None] = lambda parser: None,
) -> int:
    """Parse the command line, run a benchmark, and give its exit code.

    Args:
        main: the benchmark; prints its figures, and returns 0 where all of its targets hold.
        options: adds the benchmark's own options to the parser.
    """
    module = inspect.getmodule(main)
    parser = argparse.ArgumentParser(description=((module and module.__doc__) or "").partition("\n")[0])
    parser.add_argument("--record", action="store_true", help=f"write what is printed to {_show(FOLDER)}/")
    options(parser)
    arguments = parser.parse_args()
    if not arguments.record:
        return main(arguments)
    # Before the run: the load is that of the others, and the commit that of the code which is loaded.
    about, printed = describe(), _Both(sys.stdout)
    with contextlib.redirect_stdout(printed):
        code = main(arguments)
    command = shlex.join(["python", *(word for word in sys.argv if word != "--record")])
    path = FOLDER / f"{datetime.now(UTC):%Y-%m-%d}" / f"{Path(sys.argv[0]).stem}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    header = "".join(f"# {line}\n" for line in about)
    path.write_text(f"{header}$ {command}\n{printed.getvalue()}exit code {code}\n")
    print(f"recorded in {_show(path)}", file=sys.stderr)
    return code


def describe() -> list[str]:
    """Where and of what a record is: date, machine, system, commit. It names no host."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return [
        f"date: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        f"machine: {processor() or platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GiB of memory, "
        f"GPU: {', '.join(gpus) or 'none'}",
        f"system: {_system()}, Python {platform.python_version()}, torch {torch.__version__}",
        f"commit: {_commit()}",
        f"load of the machine before the run: {os.getloadavg()[0]:.2f}",
    ]


class _Both(io.StringIO):
    """Keeps what is written, and writes it to another stream too."""

    def __init__(self, other: io.TextIOBase) -> None:
        super().__init__()
        self._other = other

    def write(self, text: str) -> int:
        self._other.write(text)
        return super().write(text)

    def flush(self) -> None:
        self._other.flush()


def _system() -> str:
    with contextlib.suppress(OSError, KeyError):
        return f"{platform.freedesktop_os_release()['PRETTY_NAME']}, {platform.system()} {platform.release()}"
    return f"{platform.system()} {platform.release()}"


def _commit() -> str:
    state = git_state()
    changes = ", with changes that are not committed" if state["changes_sha256"] else ""
    return f"{state['revision']}{changes}" if state["revision"] else "unknown"


def _show(path: Path) -> str:
    return path.relative_to(FOLDER.parent.parent).as_posix()
