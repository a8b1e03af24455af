"""Finds the preparation that the method of a cell needs."""

from pathlib import Path

from thinwire.config.cell import Cell
from thinwire.config.cell_sources import prepares
from thinwire.errors import MethodError
from thinwire.train.make_again import prepare_command
from thinwire.train.preparation_record import Prepared, identity_of, read
from thinwire.train.result_folders import prepared_folder


def preparation_of(cell: Cell, results: Path) -> tuple[Path, Prepared] | None:
    """The folder of the preparation and its record; None if the method prepares nothing.

    Raises:
        MethodError: the preparation failed.
        UserError: it is missing, damaged or out of date; the message has the command that makes it.
    """
    if not prepares(cell):
        return None
    folder = prepared_folder(results, cell)
    made = read(folder, identity_of(cell, results), prepare_command(cell, results))
    if made.status == "failed":
        raise MethodError(f"its preparation failed: {made.reason}")
    return folder, made
