"""`thinwire paper`."""

from argparse import Namespace

from thinwire.paper.paper import paper


def main(arguments: Namespace) -> int:
    """Make the paper from the collected files."""
    print(paper(arguments.results))
    return 0
