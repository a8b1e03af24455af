"""The record of a run whose process died without a word; made without torch."""

import signal
from pathlib import Path

from thinwire import record
from thinwire.config.cell import Cell
from thinwire.files import writing
from thinwire.provenance import now
from thinwire.record import Record
from thinwire.train.places import partial_folder, record_folder


def bury(cell: Cell, results: Path, exit_code: int) -> Record:
    """Publish the record of a run whose process died without a word."""
    partial, target = partial_folder(results, cell), record_folder(results, cell)
    with writing(partial):
        partial.mkdir(parents=True, exist_ok=True)
    written = partial / record.RUN
    if written.exists():
        # It died while it was being published: everything is there.
        finished = record.read(written)
        record.put_in_place(partial, target)
        return finished
    made = Record(
        kind="inprocess",
        status="failed",
        reason=cause(exit_code),
        cell=cell.identity(),
        fingerprint=cell.fingerprint,
        method_options=cell.method.options,
        model_options=cell.model.options,
        provenance={"ended": now()},
    )
    record.write(partial, target, made, [], [])
    return made


def cause(exit_code: int) -> str:
    """How a process ended, from what the shell says of it."""
    died = exit_code - 128
    how = f"was killed by {signal.Signals(died).name}" if died in set(signal.Signals) else "died"
    return f"the process {how} (exit code {exit_code})"
