"""Archives of records, one for each suite, so that a repository can hold thousands of runs in few files.

`records/SUITE.tar.xz` has all files of the suite's records, with their paths below the folder of results.
Equal records give equal bytes: members are sorted, and have no times and no owners.
"""

import lzma
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

from thinwire.config.expand_suite import cells
from thinwire.errors import UserError
from thinwire.files import aside
from thinwire.record import RUN
from thinwire.train.result_folders import (
    ARCHIVE_SUFFIX,
    archives_folder,
    record_archive,
    record_folder,
    runs_folder,
)


def pack(results: Path, suite: str, reference: Path) -> Path:
    """Write the archive of a suite, and return its path.

    Args:
        results: the folder of results with the records.
        suite: its name.
        reference: the folder of results that is committed.

    Raises:
        UserError: a cell of the suite has no record.
    """
    folders = [record_folder(results, cell) for cell in cells(suite)]
    missing = [folder for folder in folders if not (folder / RUN).is_file()]
    if missing:
        raise UserError(
            f"{len(missing)} of {len(folders)} cells of {suite} have no record, the first is {missing[0]}: "
            f"run the pipeline with --config suites={suite} first"
        )
    archive = record_archive(reference, suite)
    archive.parent.mkdir(parents=True, exist_ok=True)
    with aside(archive) as scratch, tarfile.open(scratch, "w:xz", preset=9) as tar:
        for path in sorted(path for folder in folders for path in folder.iterdir()):
            member = tarfile.TarInfo(path.relative_to(results).as_posix())
            member.size = path.stat().st_size
            with path.open("rb") as file:
                tar.addfile(member, file)
    return archive


def archived(reference: Path) -> list[str]:
    """The suites that have an archive, by name."""
    return sorted(_suites(reference))


def unpack(reference: Path) -> None:
    """Replace the records in a folder of results by those of its archives.

    Raises:
        UserError: there is no archive, or one is damaged.
    """
    suites = archived(reference)
    if not suites:
        raise UserError(
            f"{archives_folder(reference)} has no archives of records: "
            f"`thinwire archive SUITE --into {reference}` writes them"
        )
    shutil.rmtree(runs_folder(reference), ignore_errors=True)
    for suite in suites:
        path = record_archive(reference, suite)
        try:
            with tarfile.open(path, "r:xz") as tar:
                tar.extractall(reference, filter="data")
        except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
            raise UserError(f"{path} is damaged ({error}): restore it from the repository") from None


def _suites(reference: Path) -> Iterator[str]:
    folder = archives_folder(reference)
    for path in folder.rglob(f"*{ARCHIVE_SUFFIX}"):
        yield path.relative_to(folder).as_posix().removesuffix(ARCHIVE_SUFFIX)
