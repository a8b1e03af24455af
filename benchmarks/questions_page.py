"""The blocks of commands on docs/questions.md, and how they are run."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "questions.md"
# As the page writes them.
PROGRAM, RESULTS = ".venv/bin/thinwire", "/tmp/questions"
_COMMANDS = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks_of_commands() -> list[str]:
    """The commands of the page, in its order; those of one block are one string."""
    return _COMMANDS.findall(PAGE.read_text())


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
