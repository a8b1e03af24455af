"""Runs a preparation in a process of its own, so that a method that crashes ends only this process."""

from pathlib import Path

from thinwire.config.cell import Cell
from thinwire.files import stamp
from thinwire.launch import local_processes
from thinwire.launch.postmortem import diagnose
from thinwire.launch.retry import require_no_trouble
from thinwire.train import preparation, preparation_record
from thinwire.train.preparation_record import PREPARED, Prepared
from thinwire.train.result_folders import prepared_folder
from thinwire.train.run_cell import Interrupted


def run(cell: Cell, results: Path, checkpoint_every_seconds: float) -> Prepared:
    """Let the method of a cell prepare, and publish what it made, or that it failed.

    Raises:
        UserError: a problem outside the preparation must be fixed; nothing is lost.
        Interrupted: a signal asked for a stop.
    """
    made = prepared_folder(results, cell) / PREPARED
    before = stamp(made)
    local_processes.warm_up(cell)
    reports, asked_to_stop, _ = local_processes.alone(
        lambda: preparation.prepare(cell, results, checkpoint_every_seconds), lambda: stamp(made) != before
    )
    require_no_trouble(reports)
    diagnosis = diagnose(reports)
    if diagnosis is None:
        return preparation_record.read(made.parent, preparation_record.identity_of(cell, results))
    if asked_to_stop:
        raise Interrupted(asked_to_stop)
    return preparation.publish_failure(cell, results, diagnosis.reason)
