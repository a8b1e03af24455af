"""`thinwire bury SUITE CELL CODE`: what the pipeline calls when `run` or `prepare` did not end with 0."""

from argparse import Namespace

from thinwire import record
from thinwire.config.grid import cell, preparation
from thinwire.launch.bury import NO_RESULT, bury, cause
from thinwire.train.places import prepared_folder, record_folder


def main(arguments: Namespace) -> int:
    """Make a result of a process that died, so that the others go on and the tables show it."""
    if arguments.exit_code in NO_RESULT:
        return int(arguments.exit_code)
    if arguments.preparation:
        _bury_preparation(arguments)
        return 0
    wanted = cell(arguments.suite, arguments.cell)
    if not (record_folder(arguments.results, wanted) / record.RUN).exists():
        bury(wanted, arguments.results, arguments.exit_code)
    return 0


def _bury_preparation(arguments: Namespace) -> None:
    # Imported only here, because torch takes its time.
    from thinwire.train import preparation as prepared

    wanted = preparation(arguments.suite, arguments.cell)
    if not (prepared_folder(arguments.results, wanted) / prepared.PREPARED).exists():
        prepared.bury(wanted, arguments.results, cause(arguments.exit_code))
