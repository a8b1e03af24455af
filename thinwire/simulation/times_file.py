"""The files of times that are simulated without data; see `thinwire.simulation.times_without_data`."""

from pathlib import Path
from typing import TYPE_CHECKING

from thinwire.base.errors import UserError
from thinwire.base.names import suggested_command
from thinwire.simulation.simulated_file import read_rows

if TYPE_CHECKING:  # the pipeline needs the path only, and pandas takes its time
    import pandas as pd


# docs/columns.md explains them.
TEXTS = ("suite", "dataset", "model", "method", "kind", "cluster", "accelerator", "baseline")
NUMBERS = (
    "workers",
    "nodes",
    "rate_gbit_per_second",
    "latency_seconds",
    "step_seconds",
    "compute_seconds",
    "between_nodes_bytes",
    "speed_up",
)


def path_of(results: Path, suite: str) -> Path:
    """Where the times of a suite are."""
    return results / "times" / f"{suite}.csv"


def paths(results: Path) -> list[Path]:
    """The files of all suites, in the order of their names."""
    return sorted((results / "times").rglob("[!.]*.csv"))


def read(results: Path) -> "pd.DataFrame | None":
    """The rows of all suites, in the order of their names; None if there are none. Labels are text.

    Raises:
        UserError: a file is empty, lacks a column, or has a word where a number belongs.
    """
    import pandas as pd

    made = [_read(path, results) for path in paths(results)]
    return pd.concat(made, ignore_index=True) if made else None


def _read(path: Path, results: Path) -> "pd.DataFrame":
    import pandas as pd

    suite = path.relative_to(results / "times").with_suffix("").as_posix()
    again = suggested_command("times", suite, results=results)
    rows = read_rows(path, TEXTS, (*TEXTS, *NUMBERS), again)
    for name in NUMBERS:
        if not pd.api.types.is_numeric_dtype(rows[name]):
            raise UserError(f"{path}: {name} is no number in every row: run {again} again")
    return rows
