"""Checks each record: its files, its invariants, and whether code, data and preparation are as they were."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from thinwire.base.errors import UserError
from thinwire.config.cell import Cell, cell_of
from thinwire.config.expand import cells
from thinwire.config.sources import sources_of_many
from thinwire.records import record
from thinwire.records.invariants import NOT_WRITTEN, Pairs, broken, not_written
from thinwire.records.record import Record, read_tables
from thinwire.train.result_files import advice, advice_by_hand, folders_of_records, record_folder, runs_folder
from thinwire.train.reuse import difference, difference_of_inputs, difference_of_options, edited_sources


def all_folders(results: Path) -> list[Path]:
    """The folders of all records: of suites, of cells that were run by hand, and of emulated ones."""
    roots = [results, results / "by_hand", *sorted((results / "emulated").glob("*"))]
    return [folder for root in roots for folder in folders_of_records(root)]


class SoundRecord(NamedTuple):
    """A sound record of a cell: its `run.json`, `curve.parquet` and `traffic.parquet`."""

    cell: Cell
    run: Record
    curve: pa.Table
    traffic: pa.Table


class Checked(NamedTuple):
    """What is wrong with a record, in a sentence each; and the record itself if it is sound in itself."""

    problems: list[str]
    record: SoundRecord | None
    edited: tuple[str, ...] = ()  # the plug-ins of an archived record whose files were edited since


class RecordCheck:
    """Checks records, and keeps what many of them share."""

    def __init__(self, results: Path, archived: bool) -> None:
        """Prepare to check the records of a folder.

        If they are archived, it is no problem that files of their plug-ins were edited since: an edit that
        changes results raises the version of the rules.
        """
        self._results, self._archived = results, archived
        self._pairs = Pairs()
        self._sources_of = sources_of_many()
        self._cells_of = cache(_cells_by_path)

    def check(self, folder: Path) -> Checked:
        path = folder / record.RUN
        again = f"delete {folder} and start the pipeline again"
        try:
            run = record.read_sound(path)
            cell = self._cell_now(folder, run)
            if cell is None:
                cell = cell_of(run.cell, deviates=not folder.is_relative_to(runs_folder(self._results)))
        except UserError as error:
            where = "" if str(folder) in str(error) else f"{path} is not sound: "
            return Checked([f"{where}{error}: {again}"], None)
        try:
            return self._check(folder, run, cell)
        except NOT_WRITTEN as error:
            return Checked([f"{path} is not sound: {not_written(error)}: {again}"], None)

    def _cell_now(self, folder: Path, run: Record) -> Cell | None:
        """The cell that the suite of a record has now, if the record is of exactly this cell."""
        suite = str(run.cell.get("suite"))
        own = runs_folder(self._results) / suite
        if not folder.is_relative_to(own):
            return None
        try:
            cell = self._cells_of(suite).get(folder.relative_to(own).as_posix())
        except UserError:
            return None
        return cell if cell is not None and cell.identity() == run.cell else None

    def _check(self, folder: Path, run: Record, cell: Cell) -> Checked:
        """Check a record whose digests are right."""
        problems, sound = [], None

        def again() -> str:
            return advice(cell, self._results)

        if record_folder(self._results, cell) != folder:
            problems.append(f"{folder} holds a record of {cell.suite}/{cell.path}: {again()}")
        try:
            curve, traffic = read_tables(folder)
            found = [*broken(run, cell, curve, traffic), *self._pairs.broken(folder, run, cell)]
            if not found:
                sound = SoundRecord(cell, run, curve, traffic)
            for each in found:
                by_hand = advice_by_hand(cell, self._results)
                problems.append(f"{folder / each.file} does not hold what its run gave: {each}: {by_hand}")
            reasons = (self._other_than_now(run, cell), difference_of_inputs(run, cell, self._results))
            problems += [
                f"{folder / record.RUN} was made with {reason}: {again()}" for reason in reasons if reason
            ]
            edited = edited_sources(run, cell, self._sources_of) if self._archived else []
        except UserError as error:
            return Checked([*problems, f"{error}: {again()}"], sound)
        used = {"method": cell.method.use, "model": cell.model.use, "dataset": cell.data.use}
        return Checked(problems, sound, tuple(f"{kind} {used.get(kind, '')}".strip() for kind in edited))

    def _other_than_now(self, run: Record, cell: Cell) -> str | None:
        """How the options and the code of a record differ from those of now, as the end of a sentence."""
        now: Cell | None = cell
        if not cell.deviates:
            now = self._cells_of(cell.suite).get(cell.path)
        if now is None:
            return "a cell that its suite does not have now"
        return difference_of_options(run, now) if self._archived else difference(run, now, self._sources_of)


def _cells_by_path(suite: str) -> dict[str, Cell]:
    """The cells of a suite as it is now; a `UserError` if there is none, or it is not valid."""
    return {cell.path: cell for cell in cells(suite)}
