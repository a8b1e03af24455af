"""Simulated times, with data and without: their files, speed-ups, and where the simulator was validated."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from thinwire.base.errors import UserError
from thinwire.base.files import aside
from thinwire.base.folders import suggested_command

if TYPE_CHECKING:  # the pipeline needs the path only, and pandas takes its time
    import pandas as pd


# The fewest and the most workers of the emulated runs whose times were predicted.
VALIDATED_WORKERS = (2, 4)

# docs/columns.md explains the columns.
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
    "computing",
    "revision",
)
_TEXTS = ("suite", "dataset", "model", "method", "kind", "cluster", "accelerator", "baseline")
_NUMBERS = (
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
    return _read_rows(path, COLUMNS, suggested_command("simulate", suite, results=results))


def with_speed_up(rows: "pd.DataFrame", baselines: Sequence[str], place: Sequence[str]) -> "pd.DataFrame":
    """Add `speed_up` over the fastest of the baselines in the same place, whose label is in `baseline`.

    Rows that are compared with each other have the columns of their place in common.
    """
    of_baselines = rows[rows.method.isin(baselines)]
    # Of baselines that a file cannot tell apart, the one that the suite has first.
    written = of_baselines.step_seconds.map("{:.9g}".format).astype(float)
    order = of_baselines.method.map(list(baselines).index)
    ordered = of_baselines.assign(written=written, order=order).sort_values(["written", "order"])
    fastest = ordered.drop_duplicates(place)[[*place, "method", "step_seconds"]]
    fastest = fastest.rename(columns={"method": "baseline", "step_seconds": "baseline_seconds"})
    both = rows.merge(fastest, on=[*place], how="left")
    both["speed_up"] = (both.baseline_seconds / both.step_seconds).astype(float)  # also without rows
    return both.drop(columns="baseline_seconds")


def path_of_times(results: Path, suite: str) -> Path:
    """Where the times of a suite are that were simulated without data."""
    return results / "times" / f"{suite}.csv"


def paths_of_times(results: Path) -> list[Path]:
    """The files of such times of all suites, in the order of their names."""
    return sorted((results / "times").rglob("[!.]*.csv"))


def read_times(results: Path) -> "pd.DataFrame | None":
    """The rows of such times of all suites, in the order of their names; None if there are none.

    Raises:
        UserError: a file is empty, lacks a column, or has a word where a number belongs.
    """
    import pandas as pd

    made = []
    for path in paths_of_times(results):
        suite = path.relative_to(results / "times").with_suffix("").as_posix()
        again = suggested_command("times", suite, results=results)
        rows = _read_rows(path, (*_TEXTS, *_NUMBERS), again)
        for name in _NUMBERS:
            if not pd.api.types.is_numeric_dtype(rows[name]):
                raise UserError(f"{path}: {name} is no number in every row: run {again} again")
        made.append(rows)
    return pd.concat(made, ignore_index=True) if made else None


def _read_rows(path: Path, columns: Sequence[str], again: str) -> "pd.DataFrame":
    """The rows of a file that has these columns, and that a command makes again."""
    import pandas as pd

    try:
        rows = pd.read_csv(path, dtype=dict.fromkeys(_TEXTS, str), keep_default_na=False, na_values=[""])
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read ({error}): run {again} again") from None
    if missing := [name for name in columns if name not in rows]:
        raise UserError(f"{path} has no column {missing[0]}: run {again} again")
    if rows.empty:
        raise UserError(f"{path} has no rows: run {again} again")
    return rows
