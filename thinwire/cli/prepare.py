"""`thinwire prepare SUITE PREPARATION`."""

from argparse import Namespace

from thinwire.config.grid import preparation, require_as_planned, require_valid
from thinwire.config.suite import load
from thinwire.train.places import prepared_folder
from thinwire.train.preparation import prepare


def main(arguments: Namespace) -> int:
    """Let a method prepare, and publish what it made."""
    require_valid(arguments.suite)
    cell = preparation(arguments.suite, arguments.preparation)
    require_as_planned(cell, arguments.fingerprint, cell.preparation_fingerprint)
    made = prepare(cell, arguments.results, load(arguments.suite).checkpoint_every_seconds)
    print(made.status if made.reason is None else f"{made.status}: {made.reason}")
    print(prepared_folder(arguments.results, cell))
    return int(made.status == "failed")
