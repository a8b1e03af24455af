"""`thinwire prepare SUITE PREPARATION`."""

import sys
from argparse import Namespace

from thinwire.config.expand_suite import preparation, require_as_planned, require_valid
from thinwire.config.suite import load
from thinwire.launch import preparation_process
from thinwire.launch.gpu_claims import gpus_claimed, gpus_of_preparation
from thinwire.train.make_again import prepare_command
from thinwire.train.result_folders import prepared_folder
from thinwire.train.run_cell import Interrupted


def main(arguments: Namespace) -> int:
    """Let a method prepare, and publish what it made."""
    require_valid(arguments.suite)
    cell = preparation(arguments.suite, arguments.preparation)
    require_as_planned(cell, arguments.fingerprint, cell.preparation_key.fingerprint)
    # A method may change the working directory.
    results = arguments.results.absolute()
    try:
        with gpus_claimed(gpus_of_preparation(cell)):
            made = preparation_process.run(cell, results, load(arguments.suite).checkpoint_every_seconds)
    except Interrupted as error:
        print(f"{error}; {prepare_command(cell, results)} goes on from here", file=sys.stderr)
        return 128 + error.number
    print(made.status if made.reason is None else f"{made.status}: {made.reason}")
    print(prepared_folder(results, cell))
    return int(made.status == "failed")
