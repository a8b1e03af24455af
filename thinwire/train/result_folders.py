"""Where the files of a run are under `results/`."""

from pathlib import Path

from thinwire.config.cell import Cell
from thinwire.record import RUN

ARCHIVE_SUFFIX = ".tar.xz"


def runs_folder(results: Path) -> Path:
    """The published records of all suites."""
    return results / "runs"


def folders_of_records(results: Path) -> list[Path]:
    """The folders of all published records of suites."""
    found = sorted(path.parent for path in runs_folder(results).rglob(RUN))
    return [folder for folder in found if not folder.name.startswith(".")]


def record_folder(results: Path, cell: Cell) -> Path:
    """The published record of a run."""
    return runs_folder(_of_runs(results, cell)) / cell.suite / cell.path


def archives_folder(results: Path) -> Path:
    """The archives of records, if these are committed results."""
    return results / "records"


def record_archive(results: Path, suite: str) -> Path:
    """The archive of all records of a suite."""
    return archives_folder(results) / f"{suite}{ARCHIVE_SUFFIX}"


def set_aside_folder(results: Path, cell: Cell) -> Path:
    """Has a numbered folder for each record that was set aside."""
    return _of_runs(results, cell) / "set_aside" / cell.suite / cell.path


def partial_folder(results: Path, cell: Cell) -> Path:
    """Where a run works until it is published: its log and its checkpoints."""
    return _of_runs(results, cell) / "partial" / cell.suite / cell.path


def log_file(results: Path, cell: Cell) -> Path:
    """What a run prints when the pipeline runs it."""
    return results / "logs" / "train" / cell.suite / f"{cell.path}.txt"


def lock_file(results: Path, cell: Cell) -> Path:
    """The lock of a run, held by the one process that works on it."""
    return _of_runs(results, cell) / "partial" / cell.suite / f"{cell.path}.lock"


def data_folder(results: Path, dataset: str) -> Path:
    """The folder of a data set, as arrays."""
    return results / "data" / dataset


def prepared_folder(results: Path, cell: Cell) -> Path:
    """What the method of a cell has prepared."""
    return results / "prepared" / cell.suite / cell.preparation


def preparing_folder(results: Path, cell: Cell) -> Path:
    """Where a preparation works until it is published."""
    return results / "preparing" / cell.suite / cell.preparation


def trace_folder(results: Path, cell: Cell) -> Path:
    """What `thinwire trace` makes of a cell."""
    return results / "traces" / cell.suite / cell.path


def tracing_folder(results: Path) -> Path:
    """Stands for the folder of results while cells are traced, so that their runs leave nothing in it."""
    return results / "tracing"


def _of_runs(results: Path, cell: Cell) -> Path:
    """The folder of all runs like this one.

    The pipeline reads and writes the runs of suites. A run that deviates from its suite is apart from them.
    """
    if not cell.deviates:
        return results
    # A cell may be emulated by hand on several clusters.
    return results / "by_hand" if cell.cluster is None else results / "emulated" / cell.cluster.name
