"""`thinwire train SUITE BLOCK`."""

from argparse import Namespace

from thinwire.cli.run import print_line, train
from thinwire.config.block import block, block_fingerprint
from thinwire.config.expand_suite import require_as_planned
from thinwire.errors import UserError
from thinwire.launch.train_block import train_block


def main(arguments: Namespace) -> int:
    """Train all methods of a block, and publish their records."""
    cells = block(arguments.suite, arguments.block)
    require_as_planned(cells[0], arguments.fingerprint, block_fingerprint(cells))
    if arguments.jobs < 1:
        raise UserError(f"--jobs {arguments.jobs}: it must be at least 1")
    if arguments.jobs > 1 and cells[0].transport == "processes":
        raise UserError(
            f"--jobs {arguments.jobs}: the runs of {arguments.suite} are timed, one after the other"
        )
    return train_block(cells, arguments.results.absolute(), arguments.jobs, train, print_line)
