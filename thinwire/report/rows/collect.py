"""All runs in three tidy tables, made of sound records and read: runs, evaluations, or parts of traffic."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from thinwire.base import digests
from thinwire.base.errors import UserError
from thinwire.base.files import aside, write_text
from thinwire.base.folders import DEFAULT_RESULTS, suggested_command
from thinwire.base.learning import TASKS, LearningTask
from thinwire.config.cell import Cell, sources_of_many
from thinwire.config.expand import cells
from thinwire.config.grid_subset import WHOLE, Subset
from thinwire.config.suite import suite_names
from thinwire.config.trials import PREFIX
from thinwire.records.invariants import require_invariants
from thinwire.records.record import RUN, read_sound
from thinwire.records.result import BYTES
from thinwire.report.report_files import COLLECTED, CURVES, SUMMARY, TRAFFIC
from thinwire.report.rows.collected_rows import Rows
from thinwire.train.record_check import SoundRecord, Sources, difference, difference_of_options
from thinwire.train.result_files import advice, advice_by_hand, folders_of_records, record_folder, runs_folder


def collect(suites: Iterable[str], results: Path, subset: Subset = WHOLE) -> list[str]:
    """Write `summary.csv`, `curves.parquet` and `traffic.parquet`, and their digests.

    They have the wanted runs of these suites, and all others whose records are sound and current.

    Returns:
        Sentences about other records that are left out.

    Args:
        suites: their names.
        results: the folder of results.
        subset: the cells that must have a record.

    Raises:
        UserError: a record that is wanted is missing, damaged or changed, breaks an invariant, or belongs to
            another state of its suite.
    """
    grid = [cell for suite in suites for cell in cells(suite)]
    return collect_cells(subset.keep(grid), grid, results)


def collect_cells(
    wanted: Sequence[Cell], grid: Sequence[Cell], results: Path, archived: bool = False
) -> list[str]:
    """Do what `collect` does, with the wanted ones of all cells of some suites.

    If the records are archived, files of their plug-ins may have been edited since they were made.
    """
    needed = {record_folder(results, cell) for cell in wanted}
    refused: dict[str, list[str]] = {}
    # A suite has its own order, whichever part of it was chosen.
    places = {record_folder(results, cell): place for place, cell in enumerate(grid)}
    found = {record_folder(results, cell): cell for cell in (*wanted, *_others(results, needed, refused))}
    sources_of = None if archived else sources_of_many()
    rows, records = Rows(), dict[str, str]()
    for folder in sorted(found, key=lambda folder: places.get(folder, len(places))):
        try:
            made = sound(results, found[folder], sources_of)
        except UserError as error:
            if folder in needed:
                raise
            refused[f"of suite {found[folder].suite}"].append(str(error))
            continue
        rows.add(made)
        records[str((folder / RUN).relative_to(results))] = str(made.run.sha256)
    write_text(results / SUMMARY, rows.summary())
    for name, table in ((CURVES, rows.curves()), (TRAFFIC, rows.traffic())):
        with aside(results / name) as scratch:
            table.to_parquet(scratch)
    # The records are in the order of the rows of `summary.csv`.
    content = {"files": digests.of_files(results, (SUMMARY, CURVES, TRAFFIC)), "records": records}
    digests.write_json(results / COLLECTED, content)
    return [
        f"left out of {SUMMARY}: {len(why)} record{'' if len(why) == 1 else 's'} {which}; the first: {why[0]}"
        for which, why in refused.items()
        if why
    ]


def _others(results: Path, needed: Collection[Path], refused: dict[str, list[str]]) -> Iterator[Cell]:
    """The cells that are not needed and have a record, so that `summary.csv` keeps it.

    This adds to `refused`, by what records are of, why they are left out.
    """
    runs = runs_folder(results)
    left = set(folders_of_records(results)) - set(needed)
    # Records of trials belong to their tuning.
    left = {folder for folder in left if not folder.is_relative_to(runs / PREFIX)}
    for suite in suite_names():
        own = {folder for folder in left if folder.is_relative_to(runs / suite)}
        if not own:
            continue
        reasons = refused[f"of suite {suite}"] = []
        try:
            grid = {record_folder(results, cell): cell for cell in cells(suite)}
        except UserError as error:
            left -= own
            reasons += [str(error)] * len(own)
            continue
        left -= own & grid.keys()
        yield from (cell for folder, cell in grid.items() if folder in own)
    if left:
        reasons = [f"{folder}: delete it, or restore its suite" for folder in sorted(left)]
        refused["without a cell in any suite of config/"] = reasons


def sound(results: Path, cell: Cell, sources_of: Sources | None = None) -> SoundRecord:
    """The record of a cell of a suite as it is now.

    Without `sources_of`, files of its plug-ins may have been edited since: an edit that changes results
    raises the version of the rules.

    Raises:
        UserError: it is missing, damaged, changed, out of date or breaks an invariant, and what to do.
    """
    folder = record_folder(results, cell)
    again = advice
    try:
        run = read_sound(folder / RUN)
        reason = difference(run, cell, sources_of) if sources_of else difference_of_options(run, cell)
        if reason:
            raise digests.Damaged(f"{folder / RUN} was made with {reason}")
        again = advice_by_hand
        return SoundRecord(cell, run, *require_invariants(folder, run, cell))
    except digests.Damaged as error:
        raise UserError(f"{error}: {again(cell, results)}") from None


def collected_suites(results: Path) -> list[str]:
    """The suites that have runs in `summary.csv`, in its order; none if there is no such file.

    Raises:
        UserError: the file was changed since it was collected, or cannot be read.
    """
    path = results / SUMMARY
    if not path.exists():
        return []
    with _reading(path, "SUITE"):
        suites = pd.read_csv(path, usecols=["suite"], dtype=str, keep_default_na=False).suite
    return [*dict.fromkeys(suites)]


def suites_to_show(results: Path) -> list[str]:
    """What `collected_suites` gives, for those who need one suite at least.

    Raises:
        UserError: there is no `summary.csv`, it has no runs, was changed, or cannot be read.
    """
    if not (suites := collected_suites(results)):
        path = results / SUMMARY
        what = "has no runs" if path.exists() else "is missing"
        raise UserError(f"{path} {what}: run the pipeline, or `thinwire collect SUITE`, first")
    return suites


def read_summary(results: Path, suite: str) -> pd.DataFrame:
    """The rows of a suite in `summary.csv`, with neutral names of the score.

    Labels are read as text, even those that look like numbers.

    Raises:
        UserError: the file is missing, was changed since it was collected, has no row of the suite, or was
            collected by an earlier version.
    """
    path = results / SUMMARY
    with _reading(path, suite):
        runs = _runs(path)
        runs = runs[runs["suite"] == suite]
    if runs.empty:
        raise UserError(f"{path} has no run of suite {suite}: run {_collect(suite, results)} first")
    if missing := [name for name in (*BYTES, "classes", "task") if name not in runs]:
        raise UserError(
            f"{path} has no column {missing[0]}, because an earlier version of thinwire wrote it: run "
            f"{_collect(suite, results)} first"
        )
    return with_engine_names(runs, task_of_runs(runs))


def _runs(path: Path) -> pd.DataFrame:
    """All rows of `summary.csv`."""
    texts = dict.fromkeys(
        ("suite", "dataset", "model", "method", "kind", "cluster", "status", "reason", "no_time_because"),
        "string",
    )
    return pd.read_csv(path, dtype=texts, keep_default_na=False, na_values=[""])


def task_of_runs(runs: pd.DataFrame) -> LearningTask:
    """What the runs of a suite have learned."""
    return TASKS[str(runs.task.iloc[0])]


def with_engine_names(rows: pd.DataFrame, task: LearningTask) -> pd.DataFrame:
    """The rows with the engine's names of columns, without the columns that only other tasks have."""
    others = [name for other in TASKS.values() if other is not task for name in other.columns.values()]
    return rows.drop(columns=others, errors="ignore").rename(columns=_ENGINE_NAMES[task.name])


_ENGINE_NAMES = {
    task.name: {theirs: ours for ours, theirs in task.columns.items()} for task in TASKS.values()
}


def read_curves(results: Path, suite: str, task: LearningTask) -> pd.DataFrame:
    """The rows of a suite in `curves.parquet`, with neutral names of the score; errors are as in `load`."""
    return with_engine_names(_rows_of(suite, results / CURVES), task)


def read_traffic(results: Path, suite: str) -> pd.DataFrame:
    """The rows of a suite in `traffic.parquet`; errors are those of `load`."""
    return _rows_of(suite, results / TRAFFIC)


def collected_folders(results: Path) -> set[Path]:
    """The folders of the records from which the collected files were made.

    Raises:
        UserError: nothing was collected, or the list was changed since.
    """
    try:
        records = digests.read_json(results / COLLECTED)["records"]
    except digests.Damaged as error:
        raise UserError(f"{error}: start the pipeline again") from None
    except KeyError:
        raise UserError(f"{results / COLLECTED} names no records: start the pipeline again") from None
    return {(results / path).parent for path in records}


class Tidy(NamedTuple):
    """The collected runs of all suites; docs/columns.md explains the columns of each file."""

    runs: pd.DataFrame
    """A row for each run: `results/summary.csv`."""
    curves: pd.DataFrame
    """A row for each evaluation of a run: `results/curves.parquet`."""
    traffic: pd.DataFrame
    """A row for each part of the traffic of a run: `results/traffic.parquet`."""


def load(results: str | Path = DEFAULT_RESULTS) -> Tidy:
    """Read what `thinwire collect` has gathered.

    Args:
        results: the folder of results.

    Raises:
        UserError: a file is missing, or was changed since it was collected.
    """
    tables = []
    for name, read in ((SUMMARY, _runs), (CURVES, pd.read_parquet), (TRAFFIC, pd.read_parquet)):
        path = Path(results) / name
        with _reading(path, "SUITE"):
            tables.append(read(path))
    return Tidy(*tables)


def _rows_of(suite: str, path: Path) -> pd.DataFrame:
    with _reading(path, suite):
        rows = pd.read_parquet(path)
        return rows[rows["suite"] == suite]


@contextmanager
def _reading(path: Path, suite: str) -> Iterator[None]:
    """Refuse in one sentence a file that `collect` did not write, that was changed, or is no such table."""
    try:
        found = digests.of_file(path)
        files = digests.read_json(path.with_name(COLLECTED)).get("files")
        if not isinstance(files, dict) or files.get(path.name) != found:
            raise digests.Damaged(f"{path} is not as it was collected (its SHA-256 differs)")
        yield
        return
    except digests.Damaged as error:
        why = str(error)
    except (ValueError, OSError, KeyError) as error:
        why = f"{path} cannot be read ({' '.join(str(error).split())})"
    raise UserError(f"{why}: run {_collect(suite, path.parent)} (or the pipeline) first") from None


def _collect(suite: str, results: Path) -> str:
    return suggested_command("collect", suite, results=results)
