"""What the commands of docs/questions.md print.

    python benchmarks/questions.py [--record]

Runs all commands of the page in its order, with a folder of results that is empty at first. Prints each block
of commands, and below it what it printed. Exits with 0 only if all commands do.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import questions_page
import record


def main(arguments: argparse.Namespace) -> int:
    """Run the commands, and report whether all succeed."""
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for commands in questions_page.blocks_of_commands():
            print("".join(f"$ {line}\n" for line in commands.splitlines()), end="", flush=True)
            status, printed = questions_page.run(commands, Path(folder))
            print(printed, end="", flush=True)
            failed |= status != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(record.run(main))
