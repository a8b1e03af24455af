"""The rows of a collected file, and the rows that a value asks for."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Formatter
from typing import Any

import pandas as pd

from thinwire.errors import UserError
from thinwire.paper.declarations import Declared
from thinwire.plugins import show

# Labels are read as text, even those that look like numbers.
_TEXTS = ("suite", "dataset", "model", "method", "kind", "cluster", "profile", "against", "id", "verdict")


def read(path: Path, made_by: str) -> pd.DataFrame:
    """All rows of a CSV file; the index is the number of the row's line.

    Raises:
        UserError: it cannot be read, or has no row.
    """
    try:
        rows = pd.read_csv(path, dtype=dict.fromkeys(_TEXTS, "string"), keep_default_na=False, na_values=[""])
    except (OSError, ValueError) as error:
        raise UserError(f"{show(path)} cannot be read ({error}): run `{made_by}` again") from None
    if rows.empty:
        raise UserError(f"{show(path)} has no row: run `{made_by}` again")
    return rows.set_axis(range(2, len(rows) + 2))


def groups(name: str, declared: Declared, rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The name and the rows of each value that a declaration makes.

    Raises:
        UserError: the file lacks a column that the declaration names.
    """
    placeholders = [field for _, field, _, _ in Formatter().parse(name) if field]
    for column in (*declared.where, *placeholders):
        if column not in rows:
            raise UserError(f"value {name!r} in paper/values.yaml: its file has no column {column!r}")
    for column, content in declared.where.items():
        rows = rows[rows[column] == content]
    if not placeholders:
        yield name, rows
        return
    for contents, group in rows.groupby(placeholders, sort=False, dropna=False):
        yield name.format_map(dict(zip(placeholders, map(_part, contents)))), group


def _part(content: Any) -> str:
    """A content of a column as a part of a name."""
    if pd.isna(content):
        return "none"
    return f"{content:g}" if isinstance(content, float) else str(content)


def taken(name: str, declared: Declared, rows: pd.DataFrame) -> object:
    """The value of these rows.

    Raises:
        UserError: there is no row, the rows disagree, or the expression is none.
    """
    where = f"value {name!r} in paper/values.yaml"
    if rows.empty and declared.take not in ("count", "nunique"):
        raise UserError(f"{where}: no row of its file has {_words(declared.where)}")
    try:
        contents = pd.Series(rows[declared.column] if declared.column in rows else rows.eval(declared.column))
    except (KeyError, NameError, SyntaxError, TypeError, ValueError) as error:
        raise UserError(f"{where}: {declared.column!r} is no expression of its columns ({error})") from None
    match declared.take:
        case "only":
            different = contents.unique()
            if len(different) > 1:
                raise UserError(f"{where}: {len(rows)} rows disagree; name the row, or say what to take")
            return different[0]
        case "p95":
            return contents.quantile(0.95)
        case take:
            return getattr(contents, take)()


def _words(where: Mapping[str, object]) -> str:
    return ", ".join(f"{column} = {content}" for column, content in where.items())
