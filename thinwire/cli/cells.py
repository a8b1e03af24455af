"""`thinwire cells SUITE`."""

from argparse import Namespace

from thinwire.config.expand_suite import cells, require_valid


def main(arguments: Namespace) -> int:
    """Print the cells of a suite, one on each line."""
    require_valid(arguments.suite)
    for cell in cells(arguments.suite):
        print(cell.path)
    return 0
