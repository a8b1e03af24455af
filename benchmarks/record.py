"""Run a benchmark, and with `--record` keep what it printed.

A record is `benchmarks/records/DATE/NAME.txt`, or in the folder that `--out` names. Lines that begin with `#`
give date, machine, system, commit and load. Then come the command, what it printed, and its exit code.
`benchmarks/update_docs.py` puts records into the documentation.
"""

import argparse
import contextlib
import inspect
import io
import os
import platform
import shlex
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import torch

from thinwire.base import nvidia_smi
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
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="write the record to this folder instead")
    options(parser)
    arguments = parser.parse_args()
    if not arguments.record:
        return main(arguments)
    # Before the run: the load is that of the others, and the commit that of the code which is loaded.
    about, printed = describe(), _Both(sys.stdout)
    with contextlib.redirect_stdout(printed):
        code = main(arguments)
    command = shlex.join(["python", *_measuring(sys.argv)])
    path = (arguments.out or FOLDER) / f"{datetime.now(UTC):%Y-%m-%d}" / f"{Path(sys.argv[0]).stem}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    header = "".join(f"# {line}\n" for line in about)
    path.write_text(f"{header}$ {command}\n{printed.getvalue()}exit code {code}\n")
    print(f"recorded in {_show(path)}", file=sys.stderr)
    return code


def _measuring(words: list[str]) -> Iterator[str]:
    """The words of a command that have to do with what it measures, and not with where it is recorded."""
    of_out = False
    for word in words:
        if not (of_out or word in ("--record", "--out") or word.startswith("--out=")):
            yield word
        of_out = word == "--out"


def describe() -> list[str]:
    """Where and of what a record is: date, machine, system, commit. It names no host."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    # torch would start CUDA to say so, and then no fork of this process could use it.
    gpus = nvidia_smi.names()
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
    root = FOLDER.parent.parent
    return (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()
