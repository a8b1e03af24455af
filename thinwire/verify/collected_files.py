"""Checks that the collected files follow from the records, while these are read one after the other."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from thinwire import digests
from thinwire.errors import UserError
from thinwire.report import collected_rows
from thinwire.report.require_sound_record import SoundRecord
from thinwire.report.result_names import COLLECTED, CURVES, SUMMARY, TRAFFIC

_AGAIN = "start the pipeline again"
# What reading gives if somebody has written another content with right digests.
NOT_OURS = (AttributeError, KeyError, TypeError, ValueError, pa.ArrowException)
# So many records are kept with their tables: comparing more at once is faster, and takes more memory.
_AT_ONCE = 50
_TABLES: dict[str, Callable[[Sequence[SoundRecord]], pd.DataFrame]] = {
    CURVES: collected_rows.curves,
    TRAFFIC: collected_rows.traffic,
}


class CollectedFiles:
    """Makes the rows of the collected files once more from the records, and compares them.

    Of each record it keeps the row in `summary.csv`; of few the tables.
    """

    def __init__(self, results: Path) -> None:
        self._results = results
        self._listed: dict[str, str] = {}
        # Why nothing can be compared, and the records that `collected.json` has with another digest.
        self._wrong: list[str] = []
        self._others: set[str] = set()
        self._rows: dict[str, dict[str, Any]] = {}
        self._waiting: list[SoundRecord] = []
        self._there: dict[str, pd.DataFrame] = {}
        self._compared = dict.fromkeys(_TABLES, 0)
        self._different: set[str] = set()
        self._wrong += self._tried(self._open)

    def in_order(self, folders: list[Path]) -> list[Path]:
        """The folders of records in the order in which their rows were collected, and then the others."""
        places = {(self._results / name).parent: place for place, name in enumerate(self._listed)}
        return sorted(folders, key=lambda folder: places.get(folder, len(places)))

    def add(self, name: str, made: SoundRecord) -> None:
        """Compare the rows of a record.

        Args:
            name: the path of its `run.json` below the results.
            made: the record, which is sound in itself; listed ones come in their order.
        """
        if name in self._listed and not self._wrong:
            self._wrong += self._tried(lambda: self._add(name, made))

    def problems(self) -> Iterator[str]:
        """What is wrong with the collected files and `collected.json`, in a sentence each."""
        self._wrong = self._wrong or self._tried(self._compare_waiting)
        yield from self._wrong or [*self._problems_of_listed()] or self._problems_of_rows()

    def _open(self) -> None:
        path = self._results / COLLECTED
        if not path.exists():
            left = [name for name in (SUMMARY, CURVES, TRAFFIC) if (self._results / name).exists()]
            self._wrong += [
                f"{self._results / name} has no {COLLECTED} beside it, which says where it is from: {_AGAIN}"
                for name in left
            ]
            return
        content = digests.read_json(path)
        if not isinstance(listed := content.get("records"), dict):
            raise UserError(f"{path} lists no records: an earlier version of thinwire wrote it")
        digests.require_files(self._results, content["files"])
        self._listed = listed
        self._there = {name: pd.read_parquet(self._results / name) for name in _TABLES}

    def _tried(self, work: Callable[[], None]) -> list[str]:
        """Do something; returns a sentence if it cannot be done."""
        try:
            work()
        except UserError as error:
            return [f"{error}: {_AGAIN}"]
        except NOT_OURS:
            path = self._results / COLLECTED
            return [
                f"{path}, or a file that it names, holds what `thinwire collect` does not write: {_AGAIN}"
            ]
        return []

    def _add(self, name: str, made: SoundRecord) -> None:
        if digests.stored_in_json(self._results / name) != self._listed[name]:
            self._others.add(name)
        self._rows[name] = collected_rows.row(made.cell, made.run)
        self._waiting.append(made)
        if len(self._waiting) == _AT_ONCE:
            self._compare_waiting()

    def _compare_waiting(self) -> None:
        """Compare the tables of the records that wait with the next rows of the collected ones."""
        for name, follow in _TABLES.items() if self._waiting else ():
            made, there, begin = follow(self._waiting), self._there[name], self._compared[name]
            self._compared[name] += len(made)
            if not _same(made, there.iloc[begin : begin + len(made)]):
                self._different.add(name)
        self._waiting.clear()

    def _problems_of_listed(self) -> Iterator[str]:
        summary = self._results / SUMMARY
        for name in self._listed:
            path = self._results / name
            if name not in self._rows:
                yield f"{summary} has a row of {path}, which is no sound record: {_AGAIN}"
            elif name in self._others:
                yield f"{summary} has a row of another record than {path} is now: {_AGAIN}"

    def _problems_of_rows(self) -> Iterator[str]:
        if not self._there:
            return
        summary = self._results / SUMMARY
        made = collected_rows.summary([*self._rows.values()]).splitlines()
        there = summary.read_text(encoding="utf-8").splitlines()
        for name, expected, found in zip(["the columns", *self._rows], made, there):
            if expected != found:
                yield f"{summary} has another row than follows from {name}: {_AGAIN}"
        if len(made) != len(there):
            yield f"{summary} has {len(there) - 1} rows of {len(self._rows)} records: {_AGAIN}"
        for name, rows in self._there.items():
            if name in self._different or self._compared[name] != len(rows):
                yield f"{self._results / name} has other rows than follow from the records: {_AGAIN}"


def _same(made: pd.DataFrame, there: pd.DataFrame) -> bool:
    """Are the values equal? Where some records lack a column of others, it is empty."""
    if len(made) != len(there) or not set(made) <= set(there):
        return False
    return all(
        _equal(made[name], there[name]) if name in made else there[name].isna().all() for name in there
    )


def _equal(ones: pd.Series, others: pd.Series) -> bool:
    there = ones.notna().to_numpy()
    if not (there == others.notna().to_numpy()).all():
        return False
    return bool((ones.to_numpy(object)[there] == others.to_numpy(object)[there]).all())
