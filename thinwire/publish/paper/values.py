"""Numbers of the paper, and the runs that they come from."""

import math
from collections.abc import Callable, Container, Iterable, Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from thinwire.base import digests
from thinwire.base.errors import UserError
from thinwire.config.cell import Cell
from thinwire.config.expand import cells
from thinwire.plugins import show
from thinwire.publish.paper import declarations as tables
from thinwire.publish.paper.declarations import Declarations, File
from thinwire.records import record
from thinwire.report.report_files import fixed
from thinwire.report.rows.collect import collected_folders
from thinwire.train.result_files import record_folder

# A value that many runs have made leads to the folder of all of them.
_MOST_RUNS = 12


class Run(NamedTuple):
    """A run behind a value."""

    folder: str  # relative to the folder of results
    anchor: str  # on the page of results
    sha256: str  # of its run.json


class Origin(NamedTuple):
    """A row, or several, of a file."""

    key: str
    file: str
    rows: str
    sha256: str  # of the file
    runs: list[Run]
    note: str  # says what stands behind it if no runs are listed


Grid = Callable[[str], list[tuple[Cell, Mapping[str, object]]]]


def grid(suite: str) -> list[tuple[Cell, Mapping[str, object]]]:
    """The cells of a suite, each with its labels."""
    return [(cell, cell.labels) for cell in cells(suite)]


def key_of(file: File, rows: pd.DataFrame) -> str:
    """The key of the origin that these rows of a file are."""
    first, last = rows.index.min(), rows.index.max()
    contiguous = last - first + 1 == len(rows)
    own = f"{first}-{last}" if contiguous else "_".join(map(str, rows.index))
    if len(own) >= 40:
        own = f"{first}-{last}-{digests.of_identity([*map(int, rows.index)])[:8]}"
    stem = file.path.removeprefix("results/").rpartition(".")[0]
    return f"{stem.replace('/', '-')}-{own}"


def of_rows(
    file: File, rows: pd.DataFrame, whole: pd.DataFrame, results: Path, collected: Container[Path], grid: Grid
) -> Origin:
    """The origin of a value that comes from these rows of a whole file.

    `collected` has the folders of the records behind the tables; a `UserError` if one is missing.
    """
    first, last = rows.index.min(), rows.index.max()
    lines = f"line {first}" if len(rows) == 1 else f"{len(rows)} lines from {first} to {last}"
    runs = runs_behind(file, rows, results, collected, grid)
    listed = runs if len(runs) <= _MOST_RUNS else []
    return Origin(
        key=key_of(file, rows),
        file=file.path,
        rows="all lines" if len(rows) == len(whole) and len(rows) > 1 else lines,
        sha256=digests.of_file(file.on_disk(results)),
        runs=[
            Run(str(folder.relative_to(results)), anchor(cell), _digest(folder)) for cell, folder in listed
        ],
        note=_note(file, rows, len(runs)),
    )


def runs_behind(
    file: File, rows: pd.DataFrame, results: Path, collected: Container[Path], grid: Grid
) -> list[tuple[Cell, Path]]:
    """The collected runs that have the labels of these rows, each with the folder of its record.

    A row without a repetition stands for all repetitions that were collected. Simulated rows have no runs.
    """
    if not {"dataset", "method"} <= set(rows) or set(rows.get("kind", ())) == {"simulated"}:
        return []
    rows = rows[rows.dataset.notna()]  # a verdict without a cell has no runs
    suites = rows["suite"].unique() if "suite" in rows else filter(None, [file.suite])
    every = [labelled for suite in suites for labelled in grid(suite)]
    if not every:
        return []
    columns = [name for name in every[0][1] if name in rows]
    wanted = set(rows[columns].itertuples(index=False, name=None))
    found = [cell for cell, labels in every if tuple(labels[name] for name in columns) in wanted]
    folders = [(cell, record_folder(results, cell)) for cell in found]
    return [(cell, folder) for cell, folder in folders if folder in collected]


def anchor(cell: Cell) -> str:
    """The anchor of a run on the page of results."""
    return f"run-{cell.suite}/{cell.path}"


def _digest(folder: Path) -> str:
    try:
        return digests.of_file(folder / record.RUN)
    except digests.Damaged as error:
        raise UserError(f"{error}, and a value of the paper needs it: run the pipeline again") from None


def _note(file: File, rows: pd.DataFrame, runs: int) -> str:
    if runs > _MOST_RUNS:
        suites = [file.suite] if file.suite is not None else rows["suite"].unique()
        return f"{runs} runs in {', '.join(f'results/runs/{suite}/' for suite in suites)}"
    if runs:
        return ""
    if set(rows.get("kind", ())) == {"simulated"}:
        return f"simulated, so that no run stands behind it; made by: {file.made_by}"
    return f"made by: {file.made_by}"


MINUS = "\N{MINUS SIGN}"


class Value(NamedTuple):
    """A value as the paper prints it."""

    text: str
    origin: str  # key of its origin


class Collected(NamedTuple):
    """All that the paper can name."""

    values: dict[str, Value]
    origins: dict[str, Origin]
    missing: dict[str, str]  # for each file or figure that is not there: the command that makes it


def collect(declarations: Declarations, results: Path) -> Collected:
    """The values of all files that are there, and whose suite has a run of each method in each place.

    Raises:
        UserError: a required file is missing, or a value cannot be taken from its file.
    """
    every = {**declarations.files, **declarations.figures}
    missing = {key: file.made_by for key, file in every.items() if not file.on_disk(results).is_file()}
    for key in missing:
        if every[key].required:
            path, again = show(every[key].on_disk(results)), every[key].made_by
            raise UserError(f"{path} is missing, and the paper needs it: run `{again}` first")
    values: dict[str, Value] = {}
    found: dict[str, Origin] = {}
    for name, published in declarations.published.items():
        key, note = f"published-{published.of}", f"as {published.place} says"
        values[name] = Value(published.text.replace("-", MINUS), key)
        found[key] = Origin(key, f"publication {published.of}", "", "", [], note)
    collected, once = collected_folders(results), cache(grid)
    is_whole = cache(lambda suite: _has_runs_everywhere(results, collected, once(suite)))
    read: dict[str, pd.DataFrame] = {}
    for name, declared in declarations.values.items():
        if declared.file not in declarations.files:
            raise UserError(f"value {name!r} in paper/values.yaml: there is no file {declared.file!r}")
        if declared.file in missing:
            continue
        file = declarations.files[declared.file]
        # The text names methods and numbers of workers that a part of the suite may lack.
        if not file.required and file.suite is not None and not is_whole(file.suite):
            missing[declared.file] = file.made_by
            continue
        if declared.file not in read:
            read[declared.file] = _rows(file, results)
        whole = read[declared.file]
        if whole.empty and not file.required:
            missing[declared.file] = file.made_by  # it has rows of other suites
            continue
        for own_name, rows in tables.groups(name, declared, whole):
            taken = tables.taken(own_name, declared, rows)
            key = key_of(file, rows)
            if own_name in values:
                raise UserError(f"value {own_name!r} occurs twice in paper/values.yaml")
            values[own_name] = Value(text_of(taken, declared.digits), key)
            if key not in found:
                found[key] = of_rows(file, rows, whole, results, collected, once)
    missing |= {key: missing[bars.file] for key, bars in declarations.bars.items() if bars.file in missing}
    return Collected(values, found, missing)


def _has_runs_everywhere(
    results: Path, collected: Container[Path], grid: list[tuple[Cell, Mapping[str, object]]]
) -> bool:
    """Was a run collected of each of a suite's cells, whatever its repetition?"""

    def places(cells: Iterable[tuple[Cell, Mapping[str, object]]]) -> set[tuple[object, ...]]:
        return {tuple({**labels, "repetition": None}.values()) for _, labels in cells}

    return places(grid) == places(each for each in grid if record_folder(results, each[0]) in collected)


def text_of(value: str | float | None, digits: int) -> str:
    """A value as the paper prints it."""
    if isinstance(value, str):
        return value
    if pd.isna(value):
        return "n/a"
    if math.isinf(value):
        return "not reached"
    return f"{Decimal(fixed(value, digits)):,}".replace("-", MINUS)


def number_of(text: str) -> float:
    """The number that a value prints; a ValueError if it prints a word."""
    return float(text.replace(MINUS, "-").replace(",", ""))


def _rows(file: File, results: Path) -> pd.DataFrame:
    rows = tables.read_rows(file.on_disk(results), file.made_by)
    return rows[rows["suite"] == file.suite] if file.suite and "suite" in rows else rows
