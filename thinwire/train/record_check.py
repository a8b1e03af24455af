"""The record that stands at a cell's place: is it of this cell, with the options and the code of now?"""

import os
from pathlib import Path

from thinwire import record
from thinwire.config.cell import Cell
from thinwire.config.grid import sources
from thinwire.errors import UserError
from thinwire.record import Record


def is_there(folder: Path) -> bool:
    """Is there a record in this folder, sound or not?"""
    return os.path.lexists(folder / record.RUN)


def record_of(folder: Path, cell: Cell) -> Record:
    """The record of a cell, whole and as it was written.

    Args:
        folder: the cell's own, published or not.
        cell: of the suite as it is now.

    Raises:
        UserError: it is missing or not sound; or it is of another cell, other options or other code, and the
            sentence names what differs.
    """
    run = record.read(folder / record.RUN)
    again = f"delete {folder} and start the pipeline again"
    said = {**run.cell, "fingerprint": run.fingerprint}
    asked = {**cell.identity(), "fingerprint": cell.fingerprint}
    if other := [key for key in {**asked, **said} if key not in said or said[key] != asked.get(key)]:
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
