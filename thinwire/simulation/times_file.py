"""The files of times that are simulated without data; see `thinwire.simulation.times_without_data`."""

from pathlib import Path
from typing import TYPE_CHECKING

from thinwire.base.errors import UserError
from thinwire.base.names import suggested_command

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
    try:
        rows = pd.read_csv(path, dtype=dict.fromkeys(TEXTS, str), keep_default_na=False, na_values=[""])
    except ValueError as error:
        raise UserError(f"{path} cannot be read ({error}): run {again} again") from None
    if missing := [name for name in (*TEXTS, *NUMBERS) if name not in rows]:
        raise UserError(f"{path} has no column {missing[0]}: run {again} again")
    if rows.empty:
        raise UserError(f"{path} has no rows: run {again} again")
    for name in NUMBERS:
        if not pd.api.types.is_numeric_dtype(rows[name]):
            raise UserError(f"{path}: {name} is no number in every row: run {again} again")
    return rows
