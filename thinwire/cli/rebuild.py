"""`thinwire rebuild [FOLDER]`."""

import os
import sys
from argparse import Namespace

from thinwire.audit.reference import rebuild


def main(arguments: Namespace) -> int:
    """Make tables, figures, page and paper of the committed results again."""
    for sentence in rebuild(arguments.folder, len(os.sched_getaffinity(0))):
        print(sentence, file=sys.stderr)
    print(f"rebuilt: {arguments.folder}")
    return 0
