"""What the commands of docs/questions.md print.

    python benchmarks/questions.py [--record]

Runs all commands of the page in its order, with a folder of results that is empty at first. Prints each block
of commands, and below it what it printed. Exits with 0 only if all commands do.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "questions.md"
# As the page writes them.
PROGRAM, RESULTS = ".venv/bin/thinwire", "/tmp/questions"


def blocks_of_commands() -> list[str]:
    """The commands of the page, in its order; those of one block are one string."""
    return re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def run(commands: str, results: Path) -> tuple[int, str]:
    """Run a block of commands as the page has them; gives the exit status, and what they printed.

    Args:
        commands: lines for bash.
        results: takes the place of the page's folder of results, and is printed as if it were that folder.
    """
    lines = commands.replace(PROGRAM, f"'{sys.executable}' -m thinwire").replace(RESULTS, str(results))
    ended = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", lines],
        cwd=ROOT,
        env=os.environ | {"COLUMNS": "110"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    printed = ended.stdout.replace(str(results), RESULTS)
    return ended.returncode, "".join(f"{line.rstrip()}\n" for line in printed.splitlines())


def main(arguments: argparse.Namespace) -> int:
    """Run the commands, and report whether all succeed."""
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for commands in blocks_of_commands():
            print("".join(f"$ {line}\n" for line in commands.splitlines()), end="", flush=True)
            status, printed = run(commands, Path(folder))
            print(printed, end="", flush=True)
            failed |= status != 0
    return int(failed)


if __name__ == "__main__":
    import record  # is beside this file, which tests import as a part of a package

    sys.exit(record.run(main))
