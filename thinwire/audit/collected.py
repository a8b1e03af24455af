"""Checks that the collected files follow from the records, while these are read one after the other."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from thinwire import digests
from thinwire.errors import UserError
from thinwire.report.collected_rows import Rows
from thinwire.report.result_names import COLLECTED, CURVES, SUMMARY, TRAFFIC
from thinwire.report.sound_records import SoundRecord

_AGAIN = "start the pipeline again"
# What reading gives if somebody has written another content with right digests.
NOT_OURS = (AttributeError, KeyError, TypeError, ValueError, pa.ArrowException)


class CollectedFiles:
    """Makes the collected files once more from the records, and compares them."""

    def __init__(self, results: Path) -> None:
        self._results = results
        # The digests of the records by `collected.json`; and those that are there, with their own digests.
        self._listed: dict[str, str] = {}
        self._found: dict[str, str | None] = {}
        self._rows = Rows()
        # Why nothing can be compared.
        self._wrong = self._tried(self._open)

    def in_order(self, folders: list[Path]) -> list[Path]:
        """The folders of records in the order in which their rows were collected, and then the others."""
        places = {(self._results / name).parent: place for place, name in enumerate(self._listed)}
        return sorted(folders, key=lambda folder: places.get(folder, len(places)))

    def add(self, name: str, made: SoundRecord) -> None:
        """Make the rows of a record.

        Args:
            name: the path of its `run.json` below the results.
            made: the record, which is sound in itself; listed ones come in their order.
        """
        if name in self._listed and not self._wrong:
            self._found[name] = made.run.sha256
            self._rows.add(made)

    def problems(self) -> list[str]:
        """What is wrong with the collected files and `collected.json`, in a sentence each."""
        different: list[str] = []
        problems = self._wrong or [*self._problems_of_listed()]
        if not problems and self._listed:
            problems = self._tried(lambda: different.extend(self._problems_of_rows()))
        return problems or different

    def _open(self) -> None:
        path = self._results / COLLECTED
        if not path.exists():
            for name in (SUMMARY, CURVES, TRAFFIC):
                if (self._results / name).exists():
                    where = self._results / name
                    raise UserError(f"{where} has no {COLLECTED} beside it, which says where it is from")
            return
        content = digests.read_json(path)
        if not isinstance(listed := content.get("records"), dict):
            raise UserError(f"{path} lists no records: an earlier version of thinwire wrote it")
        digests.require_files(self._results, content["files"])
        self._listed = listed

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

    def _problems_of_listed(self) -> Iterator[str]:
        summary = self._results / SUMMARY
        for name, digest in self._listed.items():
            path = self._results / name
            if name not in self._found:
                yield f"{summary} has a row of {path}, which is no sound record: {_AGAIN}"
            elif self._found[name] != digest:
                yield f"{summary} has a row of another record than {path} is now: {_AGAIN}"

    def _problems_of_rows(self) -> Iterator[str]:
        summary = self._results / SUMMARY
        made = self._rows.summary().splitlines()
        there = summary.read_text(encoding="utf-8").splitlines()
        for name, expected, found in zip(["the columns", *self._listed], made, there):
            if expected != found:
                yield f"{summary} has another row than follows from {name}: {_AGAIN}"
        if len(made) != len(there):
            yield f"{summary} has {len(there) - 1} rows of {len(self._listed)} records: {_AGAIN}"
        for name, follows in ((CURVES, self._rows.curves()), (TRAFFIC, self._rows.traffic())):
            if not pa.Table.from_pandas(follows).equals(pq.read_table(self._results / name)):
                yield f"{self._results / name} has other rows than follow from the records: {_AGAIN}"
