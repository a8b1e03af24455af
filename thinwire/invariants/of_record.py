"""Whether a record holds what every record of a run holds."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from thinwire.config.cell import Cell
from thinwire.digests import Damaged
from thinwire.invariants.broken import Broken
from thinwire.invariants.curve_file import broken_in_curve
from thinwire.invariants.run_file import broken_in_run
from thinwire.invariants.traffic_file import broken_in_traffic
from thinwire.record import CURVE, TRAFFIC, Record
from thinwire.resource_shortage import shortage


def read_tables(folder: Path) -> tuple[pa.Table, pa.Table]:
    """The curve and the traffic of the record in a folder.

    Raises:
        Damaged: one of them is no parquet file.
    """
    return _read(folder / CURVE), _read(folder / TRAFFIC)


def broken(run: Record, cell: Cell, curve: pa.Table, traffic: pa.Table) -> Iterator[Broken]:
    """The invariants that a record breaks: at most one of `run.json` and one of the tables beside it."""
    yield from broken_in_run(run, cell)
    of_curve = list(broken_in_curve(run, cell, curve))
    # The traffic is compared with the curve.
    yield from of_curve or broken_in_traffic(cell, curve, traffic)


def require_invariants(folder: Path, run: Record, cell: Cell) -> tuple[pa.Table, pa.Table]:
    """Check the record in a folder, and return its curve and its traffic.

    Args:
        folder: of the record, whose digests are right.
        run: its `run.json`.
        cell: that the record is of.

    Raises:
        Damaged: it breaks an invariant; the message names the record and the invariant.
    """
    curve, traffic = read_tables(folder)
    for each in broken(run, cell, curve, traffic):
        raise Damaged(f"{folder / each.file} does not hold what its run gave: {each}")
    return curve, traffic


def _read(path: Path) -> pa.Table:
    try:
        return pq.ParquetFile(path).read(use_threads=False)  # a table has few rows
    except (pa.ArrowException, OSError) as error:
        # Too little memory, or a thread that cannot start, says nothing about the file.
        if (short := shortage(error)) is not None:
            raise short from None
        reason = str(error).splitlines()[0]
        raise Damaged(f"{path} cannot be read as a table ({reason})") from None
