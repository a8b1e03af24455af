"""The key of a run's record in the store: it changes with everything that decides the record."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from thinwire import digests
from thinwire.config.cell import Cell, digest
from thinwire.config.cell_sources import prepares, sources
from thinwire.data.read_arrays import MANIFEST
from thinwire.train.preparation_record import PREPARED
from thinwire.train.result_folders import data_folder, prepared_folder


def record_keys(block: Sequence[Cell], results: Path) -> list[str]:
    """The keys of the records of a block, in its order.

    A timed run is compared with the others of its block, so its key depends on all of them.

    Raises:
        UserError: the data set is not laid out, or a preparation is missing.
    """
    own = [_made_from(cell, results) for cell in block]
    if block[0].transport == "processes":
        return [digest([own, place]) for place in range(len(own))]
    return [digest(made_from) for made_from in own]


def _made_from(cell: Cell, results: Path) -> list[Any]:
    """Options, code, data and preparation."""
    data = digests.of_file(data_folder(results, cell.dataset) / MANIFEST)
    prepared = digests.of_file(prepared_folder(results, cell) / PREPARED) if prepares(cell) else ""
    return [cell.fingerprint, sources(cell), data, prepared]
