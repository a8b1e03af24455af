"""`thinwire collect SUITE ...`."""

from argparse import Namespace

from thinwire.config import grid_subset
from thinwire.report.collect import collect


def main(arguments: Namespace) -> int:
    """Collect the records of runs into tidy files."""
    collect(arguments.suites, arguments.results, grid_subset.of_words(arguments.only))
    return 0
