"""Reads a record that becomes rows, and refuses one that does not verify."""

from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from thinwire.config.cell import Cell
from thinwire.digests import Damaged
from thinwire.errors import UserError
from thinwire.invariants.of_record import require_invariants
from thinwire.record import Record
from thinwire.train.make_again import advice, advice_by_hand
from thinwire.train.record_out_of_date import record_of
from thinwire.train.result_folders import record_folder


class SoundRecord(NamedTuple):
    """A sound and current record of a cell: its `run.json`, `curve.parquet` and `traffic.parquet`."""

    cell: Cell
    run: Record
    curve: pa.Table
    traffic: pa.Table


def require_sound_record(results: Path, cell: Cell) -> SoundRecord:
    """Read the record of a cell.

    Args:
        results: the folder of results.
        cell: of a suite as it is now.

    Raises:
        UserError: it is missing, damaged, changed, out of date or breaks an invariant; the message says what
            to do.
    """
    folder = record_folder(results, cell)
    run = record_of(folder, cell, advice(cell, results))
    try:
        return SoundRecord(cell, run, *require_invariants(folder, run, cell))
    except Damaged as error:
        raise UserError(f"{error}: {advice_by_hand(cell, results)}") from None
