"""The commands that make the record of a cell and what it needs, for messages."""

import json
from pathlib import Path

from thinwire.config.cell import Cell
from thinwire.suggested_command import suggested_command


def is_timed(cell: Cell) -> bool:
    """Is the cell timed, side by side with the other methods of its block?"""
    return cell.has_ranks and not cell.deviates


def run_command(cell: Cell, results: Path, *options: str) -> str:
    """The command that trains a cell by hand, or goes on with it."""
    if cell.deviates and cell.cluster is not None:
        on = ("--cluster", cell.cluster.name)
        return suggested_command("emulate", cell.suite, cell.path, *on, *options, results=results)
    how = ("--transport", cell.transport) if cell.deviates else ()
    return suggested_command("run", cell.suite, cell.path, *how, *options, results=results)


def block_command(cell: Cell, results: Path, *options: str) -> str:
    """The command that trains the block of a cell, as the pipeline does."""
    return suggested_command("train", cell.suite, cell.block, *options, results=results)


def resume_command(cell: Cell, results: Path, hold: bool) -> str:
    """The command that goes on with an interrupted cell, alone or with its block (`hold`)."""
    return block_command(cell, results) if hold else run_command(cell, results)


def prepare_command(cell: Cell, results: Path) -> str:
    """The command that makes the preparation of a cell's method."""
    return suggested_command("prepare", cell.suite, cell.preparation, results=results)


def data_command(cell: Cell, results: Path) -> str:
    """The command that lays out the data set of a cell."""
    data = cell.data
    words = ["data", data.use]
    words += ["--label", data.label] if data.label != data.use else []
    words += ["--options", json.dumps(data.options, ensure_ascii=False)] if data.options else []
    return suggested_command(*words, results=results)


def advice(cell: Cell, results: Path) -> str:
    """What to do if a record is missing, damaged or out of date, as the end of a message.

    The pipeline notices what has changed since it made a record, but not that somebody changed the record.
    """
    return f"start the pipeline again, or make this run again with {_command(cell, results)}"


def advice_by_hand(cell: Cell, results: Path) -> str:
    """What to do if a record breaks an invariant, as the end of a message: the pipeline does not notice."""
    return f"make this run again with {_command(cell, results, '--again')}"


def _command(cell: Cell, results: Path, *options: str) -> str:
    """The command that makes the record of a cell, as it was made: timed with its block, or alone."""
    return (block_command if is_timed(cell) else run_command)(cell, results, *options)
