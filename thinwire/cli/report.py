"""`thinwire report SUITE`."""

import sys
from argparse import Namespace

from thinwire.report.report import report


def main(arguments: Namespace) -> int:
    """Make tables and figures from tidy files."""
    for sentence in report(arguments.suite, arguments.results):
        print(sentence, file=sys.stderr)
    return 0
