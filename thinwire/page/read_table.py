"""Reads the tables that the page shows, if they are there."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from thinwire.errors import UserError
from thinwire.report.report_digests import require_as_made

# Columns whose labels may look like numbers.
_TEXTS = ("suite", "dataset", "model", "method", "kind", "cluster", "profile", "baseline", "against", "id")


def read_table(results: Path, path: Path, needed: Sequence[str]) -> pd.DataFrame | None:
    """The rows of a CSV file; None if there is no such file. Labels are read as text.

    Args:
        results: the folder of results.
        path: of the file, which is in it.
        needed: the columns that it must have.

    Raises:
        UserError: the file was changed since it was made, cannot be read, or lacks a column.
    """
    if not path.exists():
        return None
    require_as_made(results, path)
    try:
        rows = pd.read_csv(path, dtype=dict.fromkeys(_TEXTS, str), keep_default_na=False, na_values=[""])
    except (ValueError, OSError) as error:
        raise UserError(f"{path} cannot be read ({error}): delete it, and make the tables again") from None
    if missing := [name for name in needed if name not in rows]:
        raise UserError(f"{path} has no column {missing[0]}: delete it, and make the tables again")
    return rows
