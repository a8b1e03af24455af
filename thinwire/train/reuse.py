"""Records that are there already: their state, whether they still hold, and their use by other suites.

A record in the store has a key, which changes with everything that decides the record.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from thinwire.base import digests
from thinwire.base.errors import UserError
from thinwire.base.files import publish, writing
from thinwire.config.cell import Cell
from thinwire.config.sources import prepares, sources, sources_of_many
from thinwire.data.dataset import MANIFEST
from thinwire.records import record, store
from thinwire.records.invariants import require_invariants
from thinwire.records.record import Record
from thinwire.train import preparation_record
from thinwire.train.preparation_record import PREPARED, differences, identity_of
from thinwire.train.result_files import (
    data_folder,
    is_timed,
    prepared_folder,
    record_folder,
    set_aside_folder,
)

# Digests of the files that a cell depends on, by kind.
Sources = Callable[[Cell], Mapping[str, str]]
# At most so many options are listed; if the suite is another one, all of them differ.
_MOST_OPTIONS = 4


def is_there(folder: Path) -> bool:
    """Is there a record in this folder, sound or not?"""
    return os.path.lexists(folder / record.RUN)


def record_of(
    folder: Path, cell: Cell, advice: str = "start it again", sources_of: Sources = sources
) -> Record:
    """Read the record of a cell, published or not, and check it; messages end with the advice.

    Raises:
        UserError: it is missing or damaged; or it is of another cell, other options or other code, and the
            message says what differs.
    """
    run = record.read(folder / record.RUN, advice)
    if reason := difference(run, cell, sources_of):
        raise UserError(f"{folder / record.RUN} was made with {reason}: {advice}")
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


def keys(block: Sequence[Cell], results: Path) -> list[str]:
    """The keys of the records of a block, in its order.

    A timed run is compared with the others of its block, so its key depends on all of them.

    Raises:
        UserError: the data set is not laid out, or a preparation is missing or out of date.
    """
    own = [_made_from(cell, results) for cell in block]
    if block[0].has_ranks:
        return [digests.of_identity([own, place]) for place in range(len(own))]
    return [digests.of_identity(made_from) for made_from in own]


def key_alone(cell: Cell, results: Path) -> str | None:
    """The key of a run alone; None if it is timed in its block, deviates, or lacks data or a preparation."""
    if is_timed(cell) or cell.deviates:
        return None
    try:
        return keys([cell], results)[0]
    except UserError:
        return None


def found(cell: Cell, key: str, results: Path) -> bool:
    """Publish the record of a cell from the store, if it is there and sound."""
    folder = record_folder(results, cell)
    if not store.fetch(results, key, folder):
        return False
    try:
        require_invariants(folder, record_of(folder, cell), cell)
    except UserError:
        store.forget(results, key)
        return False
    return True


def _made_from(cell: Cell, results: Path) -> list[object]:
    """Options, code, data, and the preparation, which must be one of all these as they are."""
    data, prepared = digests.of_file(data_folder(results, cell.dataset) / MANIFEST), ""
    if prepares(cell.method.use):
        folder = prepared_folder(results, cell)
        preparation_record.read(folder, identity_of(cell, results))
        prepared = digests.of_file(folder / PREPARED)
    return [cell.fingerprint, sources(cell), data, prepared]


def store_record(cell: Cell, key: str, results: Path) -> None:
    """Store a published record. A failed run is not stored: it may have failed by accident."""
    folder = record_folder(results, cell)
    if record_of(folder, cell).status != "failed":
        store.keep(results, key, folder)


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
        return self.word if self.reason is None else f"{self.word}: {self.reason}"


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
