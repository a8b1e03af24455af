"""`thinwire page`."""

from argparse import Namespace

from thinwire.page.page import write


def main(arguments: Namespace) -> int:
    """Write the page of results."""
    print(f"open: {write(arguments.results)}")
    return 0
