"""Records that are there already: are they sound, and are code, data and preparation still as they were?"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from thinwire.base import digests
from thinwire.base.errors import UserError, in_one_line
from thinwire.base.files import publish, writing
from thinwire.config.cell import Cell, cell_of, sources, sources_of_many
from thinwire.config.expand import cells
from thinwire.config.suite import suite_names
from thinwire.data.dataset import MANIFEST
from thinwire.records import record
from thinwire.records.invariants import NOT_WRITTEN, Pairs, broken, not_written, require_invariants
from thinwire.records.record import Record, read_tables
from thinwire.train.preparation_record import PREPARED, differences, identity_of
from thinwire.train.result_files import (
    advice,
    advice_by_hand,
    archives_folder,
    data_folder,
    folders_of_records,
    prepared_folder,
    record_folder,
    runs_folder,
    set_aside_folder,
)

# Digests of the files that a cell depends on, by kind.
Sources = Callable[[Cell], Mapping[str, str]]
# At most so many options are listed; if the suite is another one, all of them differ.
_MOST_OPTIONS = 4


def is_there(folder: Path) -> bool:
    """Is there a record in this folder, sound or not?"""
    return os.path.lexists(folder / record.RUN)


def record_of(folder: Path, cell: Cell, again: str = "start it again") -> Record:
    """Read the record of a cell, published or not, and check it; messages end with how it is made `again`.

    Raises:
        UserError: it is missing or damaged; or it is of another cell, other options or other code, and the
            message says what differs.
    """
    run = record.read(folder / record.RUN, again)
    if reason := difference(run, cell):
        raise UserError(f"{folder / record.RUN} was made with {reason}: {again}")
    return run


def difference(run: Record, cell: Cell, sources_of: Sources = sources) -> str | None:
    """How its options and code differ from those that the cell has now: it was made with ...; or None."""
    kinds = edited_sources(run, cell, sources_of)
    code = f"another file of the {' and of the '.join(kinds)} than there is now" if kinds else None
    return " and ".join(filter(None, [difference_of_options(run, cell), code])) or None


def difference_of_options(run: Record, cell: Cell) -> str | None:
    """How the options of a record and its version of the rules differ from the cell's, or None."""
    expected = cell.identity()
    options = [] if run.cell == expected else _paths(run.cell, expected)
    if options or run.fingerprint != digests.of_identity(expected):
        return f"other options than the suite has now ({_listed(options or ['fingerprint'])})"
    return None


def edited_sources(run: Record, cell: Cell, sources_of: Sources = sources) -> list[str]:
    """The kinds of the sources that were edited since the record was made."""
    used, now = run.provenance.get("sources_sha256") or {}, sources_of(cell)
    return [kind for kind in now if used.get(kind) != now[kind]]


def difference_of_inputs(run: Record, cell: Cell, results: Path) -> str | None:
    """How its data and preparation differ from those in `results`: it was made with ...; or None.

    What is not there cannot differ, and neither can what a run did not read.
    """
    data, manifest = run.provenance.get("data_sha256"), data_folder(results, cell.dataset) / MANIFEST
    if data and manifest.exists() and digests.of_file(manifest) != data.get(MANIFEST):
        return "other data than there are now"
    used = run.provenance.get("prepared_sha256")
    if used and (prepared := prepared_folder(results, cell) / PREPARED).exists():
        if digests.of_file(prepared) != used:
            return "another preparation than there is now"
        made = digests.read_json(prepared)["identity"]
        if other := differences(made, identity_of(cell, results)):
            return f"a preparation that is out of date (another {' and another '.join(other)})"
    return None


def _paths(old: object, new: object, path: str = "") -> list[str]:
    """The dotted paths at which two trees differ."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return [] if old == new else [path]
    found = [
        inner
        for key in {**new, **old}
        for inner in _paths(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    ]
    # The recipe of the preparation is mostly that of the run, and then need not be named beside it.
    return [p for p in found if not (p.startswith("preparer_") and p.removeprefix("preparer_") in found)]


def _listed(options: list[str]) -> str:
    more = f" and {len(options) - _MOST_OPTIONS} more" if len(options) > _MOST_OPTIONS else ""
    return ", ".join(options[:_MOST_OPTIONS]) + more


def set_aside(cell: Cell, results: Path) -> Path:
    """Move the record of a cell to a numbered folder, and return that; the caller holds the cell's lock."""
    folder = set_aside_folder(results, cell)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        last = max((int(path.name) for path in folder.iterdir() if path.name.isdecimal()), default=0)
    aside = folder / str(last + 1)
    publish(record_folder(results, cell), aside)
    return aside


MISSING, OUT_OF_DATE, DAMAGED = "missing", "out of date", "damaged"


class CellState(NamedTuple):
    """How the run of a cell ended; or `MISSING`, `OUT_OF_DATE` or `DAMAGED`."""

    word: str
    reason: str | None = None

    @property
    def holds(self) -> bool:
        """Is there a sound record of the cell as it is now?"""
        return self.word not in (MISSING, OUT_OF_DATE, DAMAGED)

    def __str__(self) -> str:
        return self.word if self.reason is None else in_one_line(f"{self.word}: {self.reason}")


def cell_state(cell: Cell, results: Path, sources_of: Sources = sources) -> CellState:
    """What there is of a cell in a folder of results."""
    folder = record_folder(results, cell)
    if not is_there(folder):
        return CellState(MISSING)
    try:
        run = record.read_sound(folder / record.RUN)
        reason = difference(run, cell, sources_of) or difference_of_inputs(run, cell, results)
        if reason is None:
            require_invariants(folder, run, cell)
    except UserError as error:
        return CellState(DAMAGED, str(error))
    if reason is not None:
        return CellState(OUT_OF_DATE, f"made with {reason}")
    return CellState(run.status, run.reason)


def cell_states(cells: Iterable[Cell], results: Path) -> list[CellState]:
    """What there is of each of these cells."""
    sources_of = sources_of_many()
    return [cell_state(cell, results, sources_of) for cell in cells]


def counts(states: Iterable[CellState]) -> str:
    """How many cells there are, and how many of them in each state."""
    found = Counter(state.word for state in states)
    number = found.total()
    each = ", ".join(f"{count} {word}" for word, count in found.items())
    return f"{number} cell{'' if number == 1 else 's'}: {each}"


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
        again = self._to_do(folder)
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

    def _to_do(self, folder: Path, advice: str | None = None) -> str:
        """What to do about a record, as the end of a message; if it is archived, to restore it."""
        if self._archived:
            archives = archives_folder(self._results)
            return f"restore {archives if archives.exists() else folder} from the repository"
        return advice or f"delete {folder} and start the pipeline again"

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
            problems.append(f"{folder} holds a record of {cell.suite}/{cell.path}: {self._to_do(folder)}")
        try:
            curve, traffic = read_tables(folder)
            found = [*broken(run, cell, curve, traffic), *self._pairs.broken(folder, run, cell)]
            if not found:
                sound = SoundRecord(cell, run, curve, traffic)
            for each in found:
                by_hand = self._to_do(folder, advice_by_hand(cell, self._results))
                problems.append(f"{folder / each.file} does not hold what its run gave: {each}: {by_hand}")
            reasons: tuple[str | None, ...] = ()
            if self._has_cell(cell):
                reasons = self._other_than_now(run, cell), difference_of_inputs(run, cell, self._results)
            else:
                restore = "restore its suite" if self._archived else "delete it, or restore its suite"
                problems.append(f"{folder} is of a cell that no suite in config/ has now: {restore}")
            problems += [
                f"{folder / record.RUN} was made with {reason}: {again()}" for reason in reasons if reason
            ]
            edited = edited_sources(run, cell, self._sources_of) if self._archived else []
        except UserError as error:
            return Checked([*problems, f"{error}: {self._to_do(folder, again())}"], sound)
        used = {"method": cell.method.use, "model": cell.model.use, "dataset": cell.data.use}
        return Checked(problems, sound, tuple(f"{kind} {used.get(kind, '')}".strip() for kind in edited))

    def _has_cell(self, cell: Cell) -> bool:
        """Has its suite the cell now, wherever it was run? A `UserError` if the suite is not valid."""
        try:
            return cell.deviates or cell.path in self._cells_of(cell.suite)
        except UserError:
            if cell.suite in suite_names():
                raise
            return False

    def _other_than_now(self, run: Record, cell: Cell) -> str | None:
        """How the options and the code of a record differ from those of now, as the end of a sentence."""
        now = cell if cell.deviates else self._cells_of(cell.suite)[cell.path]
        return difference_of_options(run, now) if self._archived else difference(run, now, self._sources_of)


def _cells_by_path(suite: str) -> dict[str, Cell]:
    """The cells of a suite as it is now; a `UserError` if there is none, or it is not valid."""
    return {cell.path: cell for cell in cells(suite)}
