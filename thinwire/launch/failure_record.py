"""Publishes the record of a failed run whose processes could not do so themselves; needs no torch."""

from pathlib import Path
from typing import cast

from thinwire import record
from thinwire.config.cell import Cell
from thinwire.config.cell_sources import sources
from thinwire.files import writing
from thinwire.provenance import now
from thinwire.record import Record, Status
from thinwire.train.result_folders import partial_folder, record_folder


def publish(cell: Cell, results: Path, status: str, reason: str, hold: bool) -> Record:
    """Publish how a run ended; with `hold` its record stays unpublished, for the caller."""
    partial = partial_folder(results, cell)
    made = Record(
        kind=cell.kind,
        status=cast(Status, status),
        reason=reason,
        cell=cell.identity(),
        fingerprint=cell.fingerprint,
        method_options=cell.method.options,
        model_options=cell.model.options,
        provenance={"ended": now(), "sources_sha256": sources(cell)},
    )
    with writing(partial):
        partial.mkdir(parents=True, exist_ok=True)
    record.write_aside(partial, made, [], [])
    if not hold:
        record.put_in_place(partial, record_folder(results, cell))
    return made
