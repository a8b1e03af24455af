"""`thinwire measure SUITE BLOCK`."""

from argparse import Namespace

from thinwire.cli.run import print_line, train
from thinwire.config.block import block, block_fingerprint
from thinwire.config.expand_suite import require_as_planned, require_valid
from thinwire.launch.gpu_claims import gpus_claimed, gpus_of
from thinwire.launch.measured_block import measure


def main(arguments: Namespace) -> int:
    """Train all methods of a block in this allocation, and publish their records."""
    require_valid(arguments.suite)
    cells = block(arguments.suite, arguments.block)
    require_as_planned(cells[0], arguments.fingerprint, block_fingerprint(cells))
    with gpus_claimed(gpus_of(cells[0])):
        return measure(cells, arguments.results.absolute(), train, print_line)
