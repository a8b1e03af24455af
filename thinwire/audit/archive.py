"""The results that are committed: adding to them, and making them again.

Their records are in one archive for each suite, so that a repository can hold thousands of runs.
`records/SUITE.tar.xz` has all files of the suite's records, with their paths below the folder of results.
Equal records give equal bytes: members are sorted, and have no times and no owners.
"""

import lzma
import shutil
import tarfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from thinwire.base.errors import UserError, quoted
from thinwire.base.files import aside, writing
from thinwire.config.cell import Cell
from thinwire.config.expand import cells, cells_as_it_ran
from thinwire.records.record import FILES, RUN
from thinwire.report.report_files import COLLECTED, CURVES, HSGD_RATIO, PAPER, SUMMARY, TRAFFIC, read_csv
from thinwire.report.rows.collect import collect_cells
from thinwire.simulation import simulated_file
from thinwire.train.record_check import record_of
from thinwire.train.result_files import (
    ARCHIVE_SUFFIX,
    archives_folder,
    record_archive,
    record_folder,
    runs_folder,
)

# What the archives of a folder may unpack to: 80,000 records of the usual 26 kB.
MOST_BYTES = 2 * 2**30
_BLOCK = 4096  # an empty file takes a block, too
# What is never read from committed results, because it follows from the archives.
_MADE_ANEW = ("runs", "paper")


def pack(results: Path, suite: str, reference: Path) -> Path:
    """Write the archive of a suite with records in `results` into the committed results, and return its path.

    A `UserError` if a cell of the suite has no record, or one that is damaged or out of date.
    """
    every = cells(suite)
    folders = [record_folder(results, cell) for cell in every]
    missing = [folder for folder in folders if not (folder / RUN).is_file()]
    if missing:
        raise UserError(
            f"{len(missing)} of {len(folders)} cells of {suite} have no record, the first is {missing[0]}: "
            f"run the pipeline with --config suites={suite} first"
        )
    for folder, cell in zip(folders, every):
        record_of(folder, cell)
    archive = record_archive(reference, suite)
    archive.parent.mkdir(parents=True, exist_ok=True)
    with aside(archive) as scratch, tarfile.open(scratch, "w:xz", preset=9) as tar:
        # A process that was killed may have left another file in a folder.
        paths = (folder / name for folder in folders for name in FILES)
        for path in sorted(path for path in paths if path.exists()):
            member = tarfile.TarInfo(path.relative_to(results).as_posix())
            member.size = path.stat().st_size
            with path.open("rb") as file:
                tar.addfile(member, file)
    return archive


def archived(reference: Path) -> list[str]:
    """The suites that have an archive, by name."""
    folder = archives_folder(reference)
    found = folder.rglob(f"*{ARCHIVE_SUFFIX}")
    return sorted(path.relative_to(folder).as_posix().removesuffix(ARCHIVE_SUFFIX) for path in found)


@contextmanager
def unpacked(reference: Path) -> Iterator[Path]:
    """Give a temporary folder of results with the records of all archives.

    Beside the records it has a link to each file and folder of `reference`, which messages name instead. So
    what is written into these folders is written into `reference`.

    Raises:
        UserError: there is no archive, or one is damaged, or is no archive of records.
    """
    with TemporaryDirectory() as temporary:
        view = Path(temporary) / reference.resolve().name
        view.mkdir()
        try:
            _unpack(reference, view)
            for path in reference.iterdir():
                if path.name not in _MADE_ANEW:
                    (view / path.name).symlink_to(path.resolve())
            yield view
        except UserError as error:
            raise UserError(str(error).replace(str(view), str(reference))) from None


def hand_over(view: Path, reference: Path) -> None:
    """Copy what was made in a folder that `unpacked` gave, except the records, and replace what was there."""
    for path in view.iterdir():
        target = reference / path.name
        if path.is_symlink() or path == runs_folder(view):
            continue
        with writing(target):
            if path.is_dir():
                shutil.rmtree(target, ignore_errors=True)
                shutil.copytree(path, target)
            else:
                with aside(target) as scratch:
                    shutil.copyfile(path, scratch)


def _unpack(reference: Path, into: Path) -> None:
    suites = archived(reference)
    if not suites:
        raise UserError(
            f"{archives_folder(reference)} has no archives of records: "
            f"`thinwire archive SUITE --into {reference}` writes them"
        )
    left = MOST_BYTES
    for suite in suites:
        path = record_archive(reference, suite)
        try:
            with tarfile.open(path, "r:xz") as tar:
                for member in tar:
                    left -= max(member.size, _BLOCK)
                    if left < 0:
                        raise UserError(
                            f"the archives of {reference} unpack to more than {MOST_BYTES / 2**30:g} GiB, as "
                            f"no records do; the last one read is {path}: restore it from the repository"
                        )
                    _require_record_file(path, suite, member)
                    tar.extract(member, into, filter="data")
        except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
            raise UserError(f"{path} is damaged ({error}): restore it from the repository") from None


def _require_record_file(path: Path, suite: str, member: tarfile.TarInfo) -> None:
    """Refuse what `pack` does not write."""
    place = PurePosixPath(member.name)
    own = runs_folder(Path()).joinpath(suite)
    if not (member.isreg() and place.is_relative_to(own) and ".." not in place.parts and place.name in FILES):
        raise UserError(
            f"{path} has {quoted(member.name)}, which is no file of a record of {suite}: restore it from the "
            "repository"
        )


# The table of `thinwire hsgd_ratio`, which belongs to no suite.
_RATIO = f"tables/{HSGD_RATIO}.csv"


def archive(suites: Iterable[str], results: Path, reference: Path) -> None:
    """Copy the records and simulated times of suites, and collect all that are in the archives then.

    Raises:
        UserError: a record is missing, damaged or out of date, also one of a suite that was there before.
    """
    for suite in suites:
        times = simulated_file.path_of_times(results, suite)
        # A suite that was only simulated without data has no records.
        if (runs_folder(results) / suite).exists() or not times.exists():
            pack(results, suite, reference)
        for path_of in (simulated_file.path_of, simulated_file.path_of_times):
            _copy(path_of(results, suite), path_of(reference, suite))
    _copy(results / _RATIO, reference / _RATIO)
    with unpacked(reference) as view:
        _collect(reference, view)
        hand_over(view, reference)


def rebuild(reference: Path, processes: int) -> list[str]:
    """Make everything that follows from the archived records, and from simulated times.

    Args:
        reference: the folder of results that is committed.
        processes: how many suites are reported at the same time.

    Returns:
        Sentences about figures that are not drawn, suites whose claims cannot be judged, and no paper.

    Raises:
        UserError: a file is missing, damaged or changed.
    """
    # Only here, because what draws takes seconds to import, and `thinwire verify` reads archives, too.
    from thinwire.publish.page import page
    from thinwire.publish.paper import paper
    from thinwire.report import claims_table as claims
    from thinwire.report import regimes
    from thinwire.report.figures.steps import write_hsgd_ratio
    from thinwire.report.report import report

    suites = archived(reference)
    with unpacked(reference) as view:
        _collect(reference, view)
        # Fresh processes, because a fork would share the state of the libraries that draw.
        with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
            judged, mapped = pool.submit(claims.table, view), pool.submit(regimes.write, view)
            # The largest first, so that no process waits for another's at the end.
            sizes = {suite: record_archive(reference, suite).stat().st_size for suite in suites}
            largest_first = sorted(suites, key=sizes.__getitem__, reverse=True)
            reported = {suite: pool.submit(report, suite, view) for suite in largest_first}
            sentences = [reported[suite].result() for suite in suites]
            if (view / _RATIO).exists():
                pool.submit(write_hsgd_ratio, read_csv(view / _RATIO), view).result()
            table, left_out = judged.result()
            mapped.result()
            claims.write(table, view)
            missing = [suite for suite in paper.needed_suites() if suite not in suites]
            publishing = [page.write] if missing else [page.write, paper.paper]
            for published in [pool.submit(publish, view) for publish in publishing]:
                published.result()
        hand_over(view, reference)
    of_suites = (f"{suite}: {said}" for suite, several in zip(suites, sentences) for said in several)
    no_paper = (
        f"{PAPER} is left out, because {archives_folder(view)} has no archive of {suite}, which it needs"
        for suite in missing
    )
    all_sentences = [*of_suites, *left_out, *no_paper]
    return [sentence.replace(str(view), str(reference)) for sentence in all_sentences]


def _collect(reference: Path, view: Path) -> None:
    """Collect the records of all archives, which are unpacked in `view`."""
    kept = [cell for suite in archived(reference) for cell in _cells(suite, view)]
    for name in (SUMMARY, CURVES, TRAFFIC, COLLECTED):
        (view / name).unlink(missing_ok=True)  # a link to the one that is there
    if left_out := collect_cells(kept, kept, view, archived=True):
        raise UserError(left_out[0])


def _cells(suite: str, unpacked: Path) -> list[Cell]:
    """The cells of an archived suite. Methods that were added after it was archived have no records there."""
    there = [cell for cell in cells(suite) if (record_folder(unpacked, cell) / RUN).is_file()]
    return cells_as_it_ran(suite, {cell.method.label for cell in there})


def _copy(path: Path, to: Path) -> None:
    if path.exists():
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, to)
