"""`thinwire verify [FOLDER]`."""

import sys
from argparse import Namespace

from rich.console import Console
from rich.progress import track

from thinwire.verify.verify import verify


def main(arguments: Namespace) -> int:
    """Check a folder of results, and print what is wrong."""
    console = Console(stderr=True)
    found = verify(
        arguments.folder,
        lambda folders: track(
            folders, "records", console=console, transient=True, disable=not console.is_terminal
        ),
    )
    for sentence in found.problems:
        print(sentence, file=sys.stderr)
    number = f"{found.records} record{'' if found.records == 1 else 's'}, {found.sound} sound"
    others = len(found.problems)
    print(f"{number}; {others} problem{'' if others == 1 else 's'} in all" if others else number)
    return int(bool(found.problems))
