"""Checks a folder of results: its records, what they were made from, and what was made of them."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from thinwire import digests
from thinwire.audit.collected import NOT_OURS, CollectedFiles
from thinwire.audit.records import RecordCheck, all_folders
from thinwire.data.dataset import MANIFEST
from thinwire.errors import UserError
from thinwire.record import RUN
from thinwire.report import report_digests
from thinwire.report.result_names import CLAIMS, CLAIMS_TEXT, DIGESTS, PAGE, PAPER
from thinwire.suggested_command import suggested_command
from thinwire.train.preparation_record import PREPARED, read_sound

# Goes through the folders of records, and may show how far it is.
Through = Callable[[list[Path]], Iterable[Path]]


class Verified(NamedTuple):
    """How many records there are, how many are sound, and a sentence for each problem."""

    records: int
    sound: int
    problems: list[str]
    edited: Counter[str]  # archived records by the plug-in whose file was edited since


def verify(results: Path, through: Through = iter, archived: bool = False) -> Verified:
    """Check all records under a folder of results.

    Args:
        results: the folder; nothing in it is changed.
        through: goes through the folders of records.
        archived: are the records kept, although their plug-ins are worked on?

    Raises:
        UserError: there is no record.
    """
    folders = all_folders(results)
    if not folders:
        raise UserError(f"there is no record under {results}: run the pipeline first, or name its results")
    check, files = RecordCheck(results, archived), CollectedFiles(results)
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
        problems += problems_of_conclusions(results)
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


def problems_of_reports(results: Path, archived: bool) -> Iterator[str]:
    """What is wrong with the tables and figures of suites, in a sentence each."""
    for path in sorted((results / "tables").rglob(DIGESTS)):
        suite = str(path.parent.relative_to(results / "tables"))
        again = f"make them again with {suggested_command('report', suite, results=results)}"
        try:
            content = digests.read_json(path)
            for name, digest in content["files"].items():
                if archived and name.endswith(".svg") and not (results / name).exists():
                    continue  # figures for the web are not committed
                if digests.of_file(results / name) != digest:
                    yield f"{results / name} was changed after it was made (its SHA-256 differs): {again}"
            if content["made_from"] != report_digests.made_from(results, suite):
                yield f"the tables and figures of {suite} were made from other records or times: {again}"
        except UserError as error:
            yield f"{error}: {again}"
        except NOT_OURS:
            yield f"{path} holds what `thinwire report` does not write: {again}"


def problems_of_conclusions(results: Path) -> Iterator[str]:
    """What is wrong with claims, page and paper, in a sentence each. The collected files must be sound."""
    if not any((results / name).exists() for name in (CLAIMS, CLAIMS_TEXT, PAGE, PAPER)):
        return
    # Only here, because what draws takes a second to import.
    from thinwire.page import page
    from thinwire.paper import paper
    from thinwire.report.claims import table

    # The command that writes each file, and what it writes.
    made: dict[str, tuple[str, Callable[[Path], bytes]]] = {
        CLAIMS: ("claims", lambda results: table.csv(table.table(results)[0]).encode()),
        CLAIMS_TEXT: ("claims", lambda results: table.markdown(table.table(results)[0]).encode()),
        PAGE: ("page", lambda results: page.html(results).encode()),
        PAPER: ("paper", paper.pdf),
    }
    for name, (command, make) in made.items():
        path = results / name
        if not path.exists():
            continue
        again = f"make it again with {suggested_command(command, results=results)}"
        try:
            if path.read_bytes() != make(results):
                yield f"{path} is not what follows from the collected files: {again}"
        except UserError as error:
            yield f"{path} cannot be checked, because {error}: {again}"
