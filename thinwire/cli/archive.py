"""`thinwire archive SUITE ...`."""

from argparse import Namespace

from thinwire.audit.reference import archive


def main(arguments: Namespace) -> int:
    """Add the records of suites to the results that are committed."""
    archive(arguments.suites, arguments.results, arguments.into)
    print(f"archived in {arguments.into}; `thinwire rebuild {arguments.into}` makes tables and figures there")
    return 0
