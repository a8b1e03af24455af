"""`thinwire train SUITE BLOCK`."""

from argparse import Namespace

from thinwire.cli.run import print_line, train
from thinwire.config import grid_subset
from thinwire.config.block import block, block_fingerprint
from thinwire.config.expand_suite import require_as_planned
from thinwire.errors import UserError
from thinwire.launch.train_block import train_block


def main(arguments: Namespace) -> int:
    """Train all methods of a block, and publish their records."""
    cells = block(arguments.suite, arguments.block, grid_subset.of_words(arguments.only))
    require_as_planned(cells[0], arguments.fingerprint, block_fingerprint(cells))
    if arguments.jobs < 1:
        raise UserError(f"--jobs {arguments.jobs}: it must be at least 1")
    if arguments.jobs > 1 and cells[0].has_ranks:
        raise UserError(
            f"--jobs {arguments.jobs}: the runs of {arguments.suite} are timed, one after the other"
        )
    results = arguments.results.absolute()
    return train_block(cells, results, arguments.jobs, train, print_line, arguments.again)
