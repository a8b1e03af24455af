"""Commands in a process of their own."""

import os
import subprocess
import sys
from pathlib import Path

from tests import waiting
from thinwire.plugins import ROOT


def python(
    *arguments: object, folder: Path | str = ROOT, path: Path | str | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments, and wait until it ends.

    Args:
        arguments: those of the interpreter.
        folder: where it works.
        path: where it finds the engine; None: in that folder.
        variables: of its environment, beside those of this process.
    """
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(path or folder), **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=3 * waiting.SECONDS,
    )


def thinwire(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run `thinwire ARGUMENTS` in the project."""
    return python("-m", "thinwire", *arguments)


def succeeded(answer: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    """The answer of a command, which must have succeeded."""
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer
