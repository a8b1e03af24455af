"""`thinwire collect SUITE ...`."""

import sys
from argparse import Namespace

from thinwire.config import grid_subset
from thinwire.report.collect import collect


def main(arguments: Namespace) -> int:
    """Collect the records of runs into tidy files."""
    subset = grid_subset.of_words(arguments.only)
    for sentence in collect(arguments.suites, arguments.results, subset):
        print(sentence, file=sys.stderr)
    return 0
