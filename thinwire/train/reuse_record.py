"""Whether a record that was made before is used again, or the run is made again.

A record in the store has a key, which changes with everything that decides the record.
"""

from collections.abc import Sequence
from pathlib import Path

from thinwire import digests, record_store
from thinwire.config.cell import Cell
from thinwire.config.cell_sources import prepares, sources
from thinwire.data.dataset import MANIFEST
from thinwire.errors import UserError
from thinwire.records.invariants import require_invariants
from thinwire.train import preparation_record
from thinwire.train.make_again import is_timed
from thinwire.train.record_out_of_date import record_of
from thinwire.train.result_folders import data_folder, prepared_folder, record_folder


def keys(block: Sequence[Cell], results: Path) -> list[str]:
    """The keys of the records of a block, in its order.

    A timed run is compared with the others of its block, so its key depends on all of them.

    Raises:
        UserError: the data set is not laid out, or a preparation is missing or out of date.
    """
    own = [_made_from(cell, results) for cell in block]
    if block[0].has_ranks:
        return [digests.of_identity([own, place]) for place in range(len(own))]
    return [digests.of_identity(made_from) for made_from in own]


def key_alone(cell: Cell, results: Path) -> str | None:
    """The key of a run that is trained without its block.

    None if it is timed in its block, if it deviates from its suite, or if its data or preparation is missing.
    """
    if is_timed(cell) or cell.deviates:
        return None
    try:
        return keys([cell], results)[0]
    except UserError:
        return None


def found(cell: Cell, key: str, results: Path) -> bool:
    """Publish the record of a cell from the store, if it is there and sound."""
    folder = record_folder(results, cell)
    if not record_store.fetch(results, key, folder):
        return False
    try:
        require_invariants(folder, record_of(folder, cell), cell)
    except UserError:
        record_store.forget(results, key)
        return False
    return True


def _made_from(cell: Cell, results: Path) -> list[object]:
    """Options, code, data and preparation."""
    data = digests.of_file(data_folder(results, cell.dataset) / MANIFEST)
    return [cell.fingerprint, sources(cell), data, _prepared(cell, results) if prepares(cell) else ""]


def _prepared(cell: Cell, results: Path) -> str:
    """The digest of the preparation, which must be one of the method, the models and the data as they are."""
    folder = prepared_folder(results, cell)
    preparation_record.read(folder, preparation_record.identity_of(cell, results))
    return digests.of_file(folder / preparation_record.PREPARED)
