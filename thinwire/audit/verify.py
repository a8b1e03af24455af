"""Checking all records again, and what was made of them."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from thinwire.base import digests
from thinwire.base.errors import UserError
from thinwire.base.folders import suggested_command
from thinwire.config.suite import suite_names
from thinwire.config.trials import PREFIX
from thinwire.data.dataset import MANIFEST
from thinwire.records.record import RUN
from thinwire.report import report_files
from thinwire.report.report_files import (
    CLAIMS,
    CLAIMS_TEXT,
    COLLECTED,
    CURVES,
    DIGESTS,
    PAGE,
    PAPER,
    SUMMARY,
    TRAFFIC,
)
from thinwire.report.rows.collected_rows import Rows
from thinwire.train.preparation_record import PREPARED, read_sound
from thinwire.train.record_check import RecordCheck, SoundRecord, all_folders

# What reading gives if somebody has written another content with right digests.
NOT_OURS = (AttributeError, KeyError, TypeError, ValueError, pa.ArrowException)


def _command(results: Path, archived: bool, *words: str) -> str:
    """The command with these words, or the one that makes archived results again."""
    return f"`thinwire rebuild {results}`" if archived else suggested_command(*words, results=results)


class CollectedFiles:
    """Makes the collected files once more from the records, and compares them."""

    def __init__(self, results: Path, archived: bool) -> None:
        self._results = results
        rebuild = f"make it again with {_command(results, True)}"
        self._again = rebuild if archived else "start the pipeline again"
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
        """Make the rows of a sound record by the path of its `run.json`; listed ones come in their order."""
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
            return [f"{error}: {self._again}"]
        except NOT_OURS:
            what = "or a file that it names, holds what `thinwire collect` does not write"
            return [f"{self._results / COLLECTED}, {what}: {self._again}"]
        return []

    def _problems_of_listed(self) -> Iterator[str]:
        summary = self._results / SUMMARY
        for name, digest in self._listed.items():
            path = self._results / name
            if name not in self._found:
                yield f"{summary} has a row of {path}, which is no sound record: {self._again}"
            elif self._found[name] != digest:
                yield f"{summary} has a row of another record than {path} is now: {self._again}"

    def _problems_of_rows(self) -> Iterator[str]:
        summary = self._results / SUMMARY
        made = self._rows.summary().splitlines()
        there = summary.read_text(encoding="utf-8").splitlines()
        for name, expected, found in zip(["the columns", *self._listed], made, there):
            if expected != found:
                yield f"{summary} has another row than follows from {name}: {self._again}"
        if len(made) != len(there):
            yield f"{summary} has {len(there) - 1} rows of {len(self._listed)} records: {self._again}"
        for name, follows in ((CURVES, self._rows.curves()), (TRAFFIC, self._rows.traffic())):
            if not pa.Table.from_pandas(follows).equals(pq.read_table(self._results / name)):
                yield f"{self._results / name} has other rows than follow from the records: {self._again}"


class Verified(NamedTuple):
    """How many records there are, how many are sound, and a sentence for each problem."""

    records: int
    sound: int
    problems: list[str]
    edited: Counter[str]  # archived records by the plug-in whose file was edited since


def verify(
    results: Path, through: Callable[[list[Path]], Iterable[Path]] = iter, archived: bool = False
) -> Verified:
    """Check all records under a folder of results, and change nothing in it.

    Args:
        results: the folder.
        through: goes through the folders of records, and may show how far it is.
        archived: are the records kept, although their plug-ins are worked on?

    Raises:
        UserError: there is no record.
    """
    folders = all_folders(results)
    if not folders:
        raise UserError(f"there is no record under {results}: run the pipeline first, or name its results")
    check, files = RecordCheck(results, archived), CollectedFiles(results, archived)
    sound, problems, edited = 0, list[str](), Counter[str]()
    for folder in through(files.in_order(folders)):
        checked = check.check(folder)
        sound += not checked.problems
        problems += checked.problems
        edited.update(checked.edited)
        if checked.record is not None:
            files.add(str((folder / RUN).relative_to(results)), checked.record)
    problems += problems_of_data(results)
    problems += problems_of_preparations(results)
    collected = files.problems()
    problems += collected
    problems += problems_of_reports(results, archived)
    if not collected:
        problems += problems_of_conclusions(results, archived)
    return Verified(len(folders), sound, problems, edited)


def problems_of_data(results: Path) -> Iterator[str]:
    """What is wrong with the data sets that were laid out, in a sentence each."""
    for manifest in sorted((results / "data").glob(f"*/{MANIFEST}")):
        folder = manifest.parent
        again = f"delete {folder} and start the pipeline again"
        try:
            entries = digests.read_json(manifest)["files"]
            digests.require_files(folder, {name: entry["sha256"] for name, entry in entries.items()})
        except UserError as error:
            yield f"{error}: {again}"
        except (AttributeError, KeyError, TypeError):
            yield f"{manifest} is not the manifest of a data set: {again}"


def problems_of_preparations(results: Path) -> Iterator[str]:
    """What is wrong with the preparations, in a sentence each."""
    for path in sorted((results / "prepared").rglob(PREPARED)):
        try:
            read_sound(path.parent, f"delete {path.parent} and start the pipeline again")
        except UserError as error:
            yield str(error)


def problems_of_reports(results: Path, archived: bool = False) -> Iterator[str]:
    """What is wrong with the tables and figures of suites, in a sentence each."""
    known = suite_names()
    for suite in sorted({*_folders(results / "tables"), *_folders(results / "figures")}):
        path = results / "tables" / suite / DIGESTS
        if suite not in known:
            yield f"{results} has tables or figures of {suite}, which is no suite: delete them, or restore it"
            continue
        again = f"make them again with {_command(results, archived, 'report', suite)}"
        try:
            content = digests.read_json(path)
            for name, digest in content["files"].items():
                if digests.of_file(results / name) != digest:
                    yield f"{results / name} was changed after it was made (its SHA-256 differs): {again}"
            if content["made_from"] != report_files.made_from(results, suite):
                yield f"the tables and figures of {suite} were made from other records or times: {again}"
        except UserError as error:
            yield f"{error}: {again}"
        except NOT_OURS:
            yield f"{path} holds what `thinwire report` does not write: {again}"


def _folders(place: Path) -> set[str]:
    """The suites that have tables or figures in this place. Figures of tunings have no digests."""
    files = (path for path in place.rglob("[!.]*") if path.is_file() and path.parent != place)
    suites = {path.parent.relative_to(place).as_posix() for path in files}
    return {suite for suite in suites if not suite.startswith(PREFIX)}


def problems_of_conclusions(results: Path, archived: bool = False) -> Iterator[str]:
    """What is wrong with claims, page and paper, in a sentence each. The collected files must be sound."""
    if not any((results / name).exists() for name in (CLAIMS, CLAIMS_TEXT, PAGE, PAPER)):
        return
    # Only here, because what makes these files takes seconds to import.
    from thinwire.publish.page import page
    from thinwire.report import claims_table as table

    @cache
    def verdicts() -> pd.DataFrame:
        return table.table(results)[0]

    def pdf() -> bytes:
        from thinwire.publish.paper import paper

        return paper.pdf(results)

    # The command that writes each file, and what it writes.
    made: dict[str, tuple[str, Callable[[], bytes]]] = {
        CLAIMS: ("claims", lambda: report_files.csv(verdicts()).encode()),
        CLAIMS_TEXT: ("claims", lambda: table.markdown(verdicts()).encode()),
        PAGE: ("page", lambda: page.html(results).encode()),
        PAPER: ("paper", pdf),
    }
    for name, (command, make) in made.items():
        path = results / name
        if not path.exists():
            continue
        again = f"make it again with {_command(results, archived, command)}"
        try:
            if path.read_bytes() != make():
                yield f"{path} is not what follows from the collected files: {again}"
        except UserError as error:
            yield f"{path} cannot be checked: {error}"  # which says what to do
