"""The file of a suite's simulated times, and the range in which the simulator was validated."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from thinwire.base.errors import UserError
from thinwire.base.files import aside
from thinwire.base.names import suggested_command

if TYPE_CHECKING:  # the pipeline needs the path only, and pandas takes its time
    import pandas as pd


# docs/columns.md explains them.
COLUMNS = (
    "suite",
    "dataset",
    "model",
    "method",
    "workers",
    "nodes",
    "kind",
    "cluster",
    "rate_gbit_per_second",
    "own_rate",
    "steps",
    "total_steps",
    "batch_images",
    "step_seconds",
    "compute_seconds",
    "others_seconds",
    "server_seconds",
    "communication_seconds",
    "hidden_seconds",
    "wire_sent_bytes",
    "between_nodes_bytes",
    "baseline",
    "speed_up",
)


def path_of(results: Path, suite: str) -> Path:
    """Where the simulated times of a suite are."""
    return results / "simulated" / f"{suite}.csv"


def write(rows: "pd.DataFrame", results: Path, suite: str) -> Path:
    """Write the rows; returns the path."""
    path = path_of(results, suite)
    with aside(path) as scratch:
        rows[list(COLUMNS)].to_csv(scratch, index=False)
    return path


def read(results: Path, suite: str) -> "pd.DataFrame | None":
    """The rows; None if the suite has not been simulated. Labels are read as text.

    Raises:
        UserError: the file is empty, or lacks a column.
    """
    path = path_of(results, suite)
    if not path.exists():
        return None
    texts = ("suite", "dataset", "model", "method", "kind", "cluster", "baseline")
    return read_rows(path, texts, COLUMNS, suggested_command("simulate", suite, results=results))


def read_rows(path: Path, texts: Sequence[str], columns: Sequence[str], again: str) -> "pd.DataFrame":
    """The rows of a file of times.

    Args:
        path: of the file.
        texts: columns whose labels are read as text.
        columns: that it has to have.
        again: the command that makes it.

    Raises:
        UserError: the file is empty, or lacks a column.
    """
    import pandas as pd

    try:
        rows = pd.read_csv(path, dtype=dict.fromkeys(texts, str), keep_default_na=False, na_values=[""])
    except ValueError as error:
        raise UserError(f"{path} cannot be read ({error}): run {again} again") from None
    if missing := [name for name in columns if name not in rows]:
        raise UserError(f"{path} has no column {missing[0]}: run {again} again")
    if rows.empty:
        raise UserError(f"{path} has no rows: run {again} again")
    return rows


# The fewest and the most workers of the emulated runs whose times were predicted.
VALIDATED_WORKERS = (2, 4)
