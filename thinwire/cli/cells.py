"""`thinwire cells SUITE`."""

from argparse import Namespace

from thinwire.config.grid import cells, require_valid


def main(arguments: Namespace) -> int:
    """One cell a line."""
    require_valid(arguments.suite)
    for cell in cells(arguments.suite):
        print(cell.path)
    return 0
