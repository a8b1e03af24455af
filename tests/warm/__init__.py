"""`python -m thinwire`, `python -m snakemake` and `python benchmarks/NAME.py` without their slow imports.

A server has imported them once. With `environment()` such a command becomes a client (sitecustomize.py). It
hands the server its arguments, environment, folder and streams. The server forks a process, which imports
thinwire and does the work. The client passes signals on, and ends as that process ends.

Tests that stop or kill what they have started use no server.
"""

import atexit
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

_HERE = Path(__file__).parent


def environment() -> dict[str, str]:
    """Variables for a command that is to use the server, which is started by the first that asks."""
    return {"THINWIRE_TESTS_SERVER": _server()}


def python_path(*folders: Path) -> str:
    """PYTHONPATH with these folders, and the client."""
    return os.pathsep.join(map(str, (*folders, _HERE)))


@cache
def _server() -> str:
    """The name of the server's socket, which is no file; the server ends with this process."""
    address = f"thinwire-tests-{os.getpid()}"
    # Its first line says that it listens; it ends when its stdin is closed.
    server = subprocess.Popen(
        [sys.executable, "-P", _HERE / "server.py", address],
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(server.kill)
    assert server.stdout is not None
    assert server.stdout.readline() == "listening\n"
    return address
