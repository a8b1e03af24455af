"""Which records go into the store, from which `reuse_record` takes them."""

from pathlib import Path

from thinwire import record_store
from thinwire.config.cell import Cell
from thinwire.train.record_out_of_date import record_of
from thinwire.train.result_folders import record_folder


def store_record(cell: Cell, key: str, results: Path) -> None:
    """Store a published record. A failed run is not stored: it may have failed by accident."""
    folder = record_folder(results, cell)
    if record_of(folder, cell).status != "failed":
        record_store.keep(results, key, folder)
