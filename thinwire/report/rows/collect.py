"""All runs in three tidy tables: rows are runs, evaluations, or parts of the traffic of a run."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from thinwire.base import digests
from thinwire.base.errors import UserError
from thinwire.base.files import aside, write_text
from thinwire.base.learning import TASKS, LearningTask
from thinwire.base.names import DEFAULT_RESULTS, suggested_command
from thinwire.config.cell import Cell
from thinwire.config.expand import cells
from thinwire.config.grid_subset import WHOLE, Subset
from thinwire.records import record
from thinwire.records.result import BYTES
from thinwire.report.report_files import COLLECTED, CURVES, SUMMARY, TRAFFIC
from thinwire.report.rows.collected_rows import Rows
from thinwire.report.rows.sound_records import Reader
from thinwire.train.result_files import record_folder


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
    reader, rows, records = Reader(results, wanted, archived), Rows(), dict[str, str]()
    # A suite has its own order, whichever part of it was chosen.
    places = {record_folder(results, cell): place for place, cell in enumerate(grid)}
    last = len(places)
    in_order = sorted(reader.cells, key=lambda cell: places.get(record_folder(results, cell), last))
    for sound in reader.read(in_order):
        rows.add(sound)
        path = record_folder(results, sound.cell) / record.RUN
        records[str(path.relative_to(results))] = str(sound.run.sha256)
    write_text(results / SUMMARY, rows.summary())
    for name, table in ((CURVES, rows.curves()), (TRAFFIC, rows.traffic())):
        with aside(results / name) as scratch:
            table.to_parquet(scratch)
    # The records are in the order of the rows of `summary.csv`.
    content = {"files": digests.of_files(results, (SUMMARY, CURVES, TRAFFIC)), "records": records}
    digests.write_json(results / COLLECTED, content)
    return reader.left_out()


def collected_suites(results: Path) -> list[str]:
    """The suites that have runs in `summary.csv`, in its order; none if there is no such file.

    Raises:
        UserError: the file was changed since it was collected, or cannot be read.
    """
    path = results / SUMMARY
    if not path.exists():
        return []
    _require_as_collected(path, "SUITE")
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
        runs = _runs(path, suite)
        runs = runs[runs["suite"] == suite]
    if runs.empty:
        raise UserError(f"{path} has no run of suite {suite}: run {_collect(suite, results)} first")
    if missing := [name for name in (*BYTES, "classes", "task") if name not in runs]:
        raise UserError(
            f"{path} has no column {missing[0]}, because an earlier version of thinwire wrote it: run "
            f"{_collect(suite, results)} first"
        )
    return with_engine_names(runs, task_of_runs(runs))


def _runs(path: Path, suite: str) -> pd.DataFrame:
    """All rows of `summary.csv`."""
    _require_as_collected(path, suite)
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
    """The rows of a suite in `curves.parquet`, with neutral names of the score.

    Args:
        results: the folder of results.
        suite: its name.
        task: what the suite learns.

    Raises:
        UserError: the file is missing, or was changed since it was collected.
    """
    return with_engine_names(_rows_of(suite, results / CURVES), task)


def read_traffic(results: Path, suite: str) -> pd.DataFrame:
    """The rows of a suite in `traffic.parquet`.

    Raises:
        UserError: the file is missing, or was changed since it was collected.
    """
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
    folder, suite = Path(results), "SUITE"
    with _reading(folder / SUMMARY, suite):
        runs = _runs(folder / SUMMARY, suite)
    return Tidy(runs, *(_rows(folder / name, suite) for name in (CURVES, TRAFFIC)))


def _rows_of(suite: str, path: Path) -> pd.DataFrame:
    rows = _rows(path, suite)
    with _reading(path, suite):
        return rows[rows["suite"] == suite]


def _rows(path: Path, suite: str) -> pd.DataFrame:
    _require_as_collected(path, suite)
    with _reading(path, suite):
        return pd.read_parquet(path)


@contextmanager
def _reading(path: Path, suite: str) -> Iterator[None]:
    """Turn what pandas says about a file that is no table of ours into one sentence."""
    try:
        yield
    except (ValueError, OSError, KeyError) as error:
        again = _collect(suite, path.parent)
        raise UserError(
            f"{path} cannot be read ({' '.join(str(error).split())}): run {again} (or the pipeline) first"
        ) from None


def _require_as_collected(path: Path, suite: str) -> None:
    """Refuse a file that the last `collect` did not write, or that was changed since."""
    try:
        found = digests.of_file(path)
        collected = digests.read_json(path.with_name(COLLECTED))
        if not isinstance(files := collected.get("files"), dict) or files.get(path.name) != found:
            raise digests.Damaged(f"{path} is not as it was collected (its SHA-256 differs)")
    except digests.Damaged as error:
        again = _collect(suite, path.parent)
        raise UserError(f"{error}: run {again} (or the pipeline) first") from None


def _collect(suite: str, results: Path) -> str:
    return suggested_command("collect", suite, results=results)
