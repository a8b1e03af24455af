"""`thinwire report SUITE`."""

from argparse import Namespace

from thinwire.report.report import report


def main(arguments: Namespace) -> int:
    """Tidy files to tables and figures."""
    report(arguments.suite, arguments.results)
    return 0
