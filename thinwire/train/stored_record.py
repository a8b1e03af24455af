"""The record of a run in the store, where it is found again if all that decides it is the same."""

from pathlib import Path

from thinwire import record_store
from thinwire.config.cell import Cell
from thinwire.errors import UserError
from thinwire.train.make_again import is_timed
from thinwire.train.record_check import record_of
from thinwire.train.record_key import record_keys
from thinwire.train.result_folders import record_folder


def fetch(cell: Cell, key: str, results: Path) -> bool:
    """Publish the record of a cell from the store, if it is there and sound."""
    folder = record_folder(results, cell)
    if not record_store.fetch(results, key, folder):
        return False
    try:
        record_of(folder, cell)
    except UserError:
        record_store.forget(results, key)
        return False
    return True


def keep(cell: Cell, key: str, results: Path) -> None:
    """Store a published record. A failed run is not stored: it may have failed by accident."""
    folder = record_folder(results, cell)
    if record_of(folder, cell).status != "failed":
        record_store.keep(results, key, folder)


def key_alone(cell: Cell, results: Path) -> str | None:
    """The key of a run that is stored without its block.

    None if it is timed in its block, if it deviates from its suite, or if its data or preparation is missing.
    """
    if is_timed(cell) or cell.deviates:
        return None
    try:
        return record_keys([cell], results)[0]
    except UserError:
        return None
