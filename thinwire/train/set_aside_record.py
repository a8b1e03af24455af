"""Moves a record out of the way. Nothing reads it there, and nothing is lost."""

from pathlib import Path

from thinwire.config.cell import Cell
from thinwire.files import publish, writing
from thinwire.train.result_folders import record_folder, set_aside_folder


def set_aside(cell: Cell, results: Path) -> Path:
    """Move the record of a cell to a numbered folder, and return that; the caller holds the cell's lock."""
    folder = set_aside_folder(results, cell)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        last = max((int(path.name) for path in folder.iterdir() if path.name.isdecimal()), default=0)
    aside = folder / str(last + 1)
    publish(record_folder(results, cell), aside)
    return aside
