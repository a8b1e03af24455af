"""Checks that a record belongs to a cell, with the options and the code that the cell has now."""

import os
from pathlib import Path

from thinwire import record
from thinwire.config.cell import Cell
from thinwire.config.cell_sources import sources
from thinwire.errors import UserError
from thinwire.record import Record


def is_there(folder: Path) -> bool:
    """Is there a record in this folder, sound or not?"""
    return os.path.lexists(folder / record.RUN)


def record_of(folder: Path, cell: Cell) -> Record:
    """Read the record of a cell, and check it.

    Args:
        folder: of the cell's record, published or not.
        cell: of the suite as it is now.

    Raises:
        UserError: it is missing or damaged; or it is of another cell, other options or other code, and the
            message names what differs.
    """
    run = record.read(folder / record.RUN)
    again = f"delete {folder} and start the pipeline again"
    recorded = {**run.cell, "fingerprint": run.fingerprint}
    expected = {**cell.identity(), "fingerprint": cell.fingerprint}
    if other := [
        key for key in {**expected, **recorded} if key not in recorded or recorded[key] != expected.get(key)
    ]:
        raise UserError(
            f"{folder / record.RUN} was made with other options than the suite has now, or for another cell "
            f"(these differ: {', '.join(other)}): {again}"
        )
    used = run.provenance.get("sources_sha256", {})
    if changed := [kind for kind, digest in sources(cell).items() if used.get(kind) != digest]:
        raise UserError(
            f"{folder / record.RUN} was made with another file of the {' and of the '.join(changed)} than "
            f"there is now: {again}"
        )
    return run
