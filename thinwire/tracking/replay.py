"""All published runs of a suite, as offline runs to browse or to send."""

from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from thinwire import record
from thinwire.config.cell import Cell
from thinwire.config.grid import cells
from thinwire.errors import UserError
from thinwire.files import locked, publish, write_text
from thinwire.record import Record
from thinwire.tracking import client, names, view
from thinwire.train.paths import record_folder
from thinwire.train.record_check import is_there, record_of

# Beside the runs: what became of the replay, also where there is no W&B.
NOTE = "replay.txt"


class Replay(NamedTuple):
    """Where the runs are, how many, and of how many cells; `problem` if W&B could not take them."""

    folder: Path
    runs: int
    cells: int
    problem: str | None = None


def replay(suite: str, results: Path) -> Replay:
    """Write the published runs of a suite into a folder of their own under `results`/wandb.

    They are written aside first: the folder is the new one or the earlier one, never a mixture. Where W&B
    cannot be used the earlier one stays.

    Raises:
        UserError: no record is there, or one is not sound, was changed or is of another state of the suite.
    """
    grid = cells(suite)
    there = [(cell, record_folder(results, cell)) for cell in grid]
    published = [
        (cell, record_of(folder, cell), pq.read_table(folder / record.CURVE).to_pylist())
        for cell, folder in there
        if is_there(folder)
    ]
    if not published:
        raise UserError(f"no run of suite {suite} is published in {results / 'runs'}: run the pipeline first")
    target = results / "wandb" / names.project(suite)
    scratch = target.with_name(f".{target.name}.new")
    with locked(target.with_name(f".{target.name}.lock"), f"{target}"):
        record.discard(scratch)  # what an interrupted replay left
        problem = None
        try:
            for cell, made, curve in published:
                _replay(cell, made, curve, scratch)
        except Exception as error:
            problem = client.reason(error)
            client.forget()
            write_text(target / NOTE, f"not replayed: {problem}\n")
        else:
            for own in (scratch / "wandb").glob("*/logs"):
                record.discard(own)  # the client's, with paths of this machine
            write_text(scratch / "wandb" / NOTE, f"{len(published)} of {len(grid)} runs\n")
            publish(scratch / "wandb", target)
        record.discard(scratch)
    return Replay(target, len(published), len(grid), problem)


def _replay(cell: Cell, made: Record, curve: list[dict[str, Any]], folder: Path) -> None:
    run = client.begin(cell, made.kind, folder, "offline")
    for row in curve:
        run.log(view.history(row, made.kind))
    client.end(run, made)
