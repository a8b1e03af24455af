"""`thinwire collect SUITE ...`."""

import sys
from argparse import Namespace

from thinwire.report.collect import collect


def main(arguments: Namespace) -> int:
    """Collect the records of runs into tidy files."""
    for sentence in collect(arguments.suites, arguments.results):
        print(sentence, file=sys.stderr)
    return 0
