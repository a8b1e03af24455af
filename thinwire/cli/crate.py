"""`thinwire crate`."""

from argparse import Namespace

from thinwire.ro_crate.write import write


def main(arguments: Namespace) -> int:
    """Describe the results as an RO-Crate."""
    print(f"{write(arguments.results)} describes the results")
    return 0
