"""`thinwire report SUITE`."""

from argparse import Namespace

from thinwire.report.report import report


def main(arguments: Namespace) -> int:
    """Make tables and figures from tidy files."""
    report(arguments.suite, arguments.results)
    return 0
