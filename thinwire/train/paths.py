"""Where things lie under `results/`."""

from pathlib import Path

from thinwire.config.cell import Cell


def record_folder(results: Path, cell: Cell) -> Path:
    """The published record of a run."""
    return results / "runs" / cell.suite / cell.path


def partial_folder(results: Path, cell: Cell) -> Path:
    """Where a run works until it is published: its log and its checkpoints."""
    return results / "partial" / cell.suite / cell.path


def lock_file(results: Path, cell: Cell) -> Path:
    """Held by the one process that works on a run."""
    return results / "partial" / cell.suite / f"{cell.path}.lock"


def secret_file(results: Path, user: int) -> Path:
    """From which the ranks of a user's runs know each other; outside everything that is published."""
    return results / "partial" / f".secret-{user}"


def data_folder(results: Path, dataset: str) -> Path:
    """Where a data set is laid out."""
    return results / "data" / dataset


def prepared_folder(results: Path, cell: Cell) -> Path:
    """What the method of a cell has prepared."""
    return results / "prepared" / cell.suite / cell.preparation


def preparing_folder(results: Path, cell: Cell) -> Path:
    """Where a preparation works until it is published."""
    return results / "preparing" / cell.suite / cell.preparation
