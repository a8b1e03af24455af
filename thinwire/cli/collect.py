"""`thinwire collect SUITE ...`."""

from argparse import Namespace

from thinwire.report.collect import collect


def main(arguments: Namespace) -> int:
    """Collect the records of runs into tidy files."""
    collect(arguments.suites, arguments.results)
    return 0
