"""Reads the tables that the page shows, if they are there."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from thinwire.errors import UserError

# Columns whose labels may look like numbers.
_TEXTS = ("suite", "dataset", "model", "method", "kind", "cluster", "profile", "baseline", "against", "id")


def read_table(path: Path, needed: Sequence[str]) -> pd.DataFrame | None:
    """The rows of a CSV file; None if there is no such file. Labels are read as text.

    Args:
        path: of the file.
        needed: the columns that it must have.

    Raises:
        UserError: the file cannot be read, or lacks a column.
    """
    if not path.exists():
        return None
    try:
        rows = pd.read_csv(path, dtype=dict.fromkeys(_TEXTS, str), keep_default_na=False, na_values=[""])
    except (ValueError, OSError) as error:
        raise UserError(f"{path} cannot be read ({error}): delete it, and make the tables again") from None
    if missing := [name for name in needed if name not in rows]:
        raise UserError(f"{path} has no column {missing[0]}: delete it, and make the tables again")
    return rows
