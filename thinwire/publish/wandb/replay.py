"""Writes all published runs of a suite as offline runs of W&B, to browse or to send."""

from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from thinwire.base.errors import UserError
from thinwire.base.files import locked, publish, write_text
from thinwire.config.cell import Cell
from thinwire.config.configuration import WHOLE, Subset
from thinwire.config.expand import cells
from thinwire.publish.wandb import client, fields, summary
from thinwire.records import record
from thinwire.records.record import Record
from thinwire.train.record_check import is_there, record_of
from thinwire.train.result_files import advice, record_folder

# This file beside the runs says how the replay went, even if W&B cannot be used.
NOTE = "replay.txt"


class Replay(NamedTuple):
    """Where the runs are, how many there are, of how many cells, and why W&B could not take them, if so.

    `summed_up` says whether the run that sums up the suite is among them, for which its tables must be there.
    """

    folder: Path
    runs: int
    cells: int
    summed_up: bool
    problem: str | None = None


def replay(suite: str, results: Path, subset: Subset = WHOLE) -> Replay:
    """Write the published runs of a suite into a folder of their own under `results`/wandb.

    They are written elsewhere first, so that the folder has either the new runs or the earlier ones, never a
    mixture. If W&B cannot be used, the earlier ones stay.

    Args:
        suite: its name.
        results: the folder of results.
        subset: the cells that are wanted; records of others need not be sound and current.

    Raises:
        UserError: there is no record; or that of a wanted cell is damaged, was changed or is of another state
            of the suite; or a table of the suite was changed.
    """
    every = cells(suite)
    wanted = {cell.path for cell in subset.keep(every)}
    published = []
    for cell in every:
        folder = record_folder(results, cell)
        if not is_there(folder):
            continue
        try:
            made = _record(cell, results)
        except UserError:
            if cell.path in wanted:
                raise
            continue
        published.append((cell, made, pq.read_table(folder / record.CURVE).to_pylist()))
    if not published:
        raise UserError(f"no run of suite {suite} is published in {results / 'runs'}: run the pipeline first")
    grid = len(wanted | {cell.path for cell, _, _ in published})
    tables = summary.tables(suite, results)
    target = results / "wandb" / fields.project(suite)
    scratch = target.with_name(f".{target.name}.new")
    with locked(target.with_name(f".{target.name}.lock"), f"{target}"):
        record.discard(scratch)  # left by an interrupted replay
        problem = None
        try:
            # First, because `wandb leet` opens with the last run.
            if tables:
                summary.write(suite, every, results, tables, scratch, target / summary.FILES)
            for cell, made, curve in published:
                _replay(cell, made, curve, scratch)
        except Exception as error:
            problem = client.reason(error)
            client.forget()
            write_text(target / NOTE, f"not replayed: {problem}\n")
        else:
            for logs in (scratch / "wandb").glob("*/logs"):
                record.discard(logs)  # the client's logs, which have paths of this machine
            write_text(scratch / "wandb" / NOTE, f"{len(published)} of {grid} runs\n")
            publish(scratch / "wandb", target)
        record.discard(scratch)
    return Replay(target, len(published), grid, bool(tables), problem)


def _record(cell: Cell, results: Path) -> Record:
    return record_of(record_folder(results, cell), cell, advice(cell, results))


def _replay(cell: Cell, made: Record, curve: list[dict[str, object]], folder: Path) -> None:
    seconds = fields.seconds_of(made.kind, made.no_time_because)
    run = client.begin_cell(cell, made.kind, seconds, folder, "offline")
    for row in curve:
        run.log(fields.history(row, seconds))
    client.end(run, made)
