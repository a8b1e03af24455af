"""`thinwire verify [FOLDER]`."""

import sys
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.progress import track

from thinwire.audit import archive
from thinwire.audit.verify import verify


def main(arguments: Namespace) -> int:
    """Check a folder of results, and print what is wrong."""
    through = _shown if sys.stderr.isatty() else iter
    if archive.archived(arguments.folder):
        # What is committed is checked, and not what somebody has unpacked earlier.
        with archive.unpacked(arguments.folder) as folder:
            found = verify(folder, through, archived=True)
    else:
        folder = arguments.folder
        found = verify(folder, through)
    for sentence in found.problems:
        print(sentence.replace(str(folder), str(arguments.folder)), file=sys.stderr)
    for plug_in, number_of_records in sorted(found.edited.items()):
        print(f"{number_of_records} records were made before the file of the {plug_in} was edited")
    number = f"{found.records} record{'' if found.records == 1 else 's'}, {found.sound} sound"
    others = len(found.problems)
    print(f"{number}; {others} problem{'' if others == 1 else 's'} in all" if others else number)
    return int(bool(found.problems))


def _shown(folders: list[Path]) -> Iterable[Path]:
    """Go through the folders of records, and show on the terminal how far it is."""
    return track(folders, "records", console=Console(stderr=True), transient=True)
