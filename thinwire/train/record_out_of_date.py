"""Says whether a record is of a cell as it is now: its options, its code, its data and its preparation."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from thinwire import digests, record
from thinwire.config.cell import Cell
from thinwire.config.cell_sources import ENGINE, sources
from thinwire.data.dataset import MANIFEST
from thinwire.errors import UserError
from thinwire.record import Record
from thinwire.train.preparation_record import PREPARED, differences, identity_of
from thinwire.train.result_folders import data_folder, prepared_folder

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
    """Read the record of a cell, and check it.

    Args:
        folder: of the cell's record, published or not.
        cell: of the suite as it is now.
        advice: what to do if it is refused, as the end of the message.
        sources_of: gives the digests of the files that a cell depends on.

    Raises:
        UserError: it is missing or damaged; or it is of another cell, other options or other code, and the
            message says what differs.
    """
    run = record.read(folder / record.RUN, advice)
    if reason := difference(run, cell, sources_of):
        raise UserError(f"{folder / record.RUN} was made with {reason}: {advice}")
    return run


def difference(run: Record, cell: Cell, sources_of: Sources = sources) -> str | None:
    """How the options and the code of a record differ from those that the cell has now, or None.

    Returns:
        The end of a sentence: the record was made with ...
    """
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
    # Records of earlier versions say nothing about files of the engine.
    used = {ENGINE: now[ENGINE], **used}
    return [kind for kind in now if used.get(kind) != now[kind]]


def difference_of_inputs(run: Record, cell: Cell, results: Path) -> str | None:
    """How the data and the preparation of a record differ from those in `results`, or None.

    What is not there cannot differ, and neither can what a run did not read.

    Returns:
        The end of a sentence: the record was made with ...
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
