"""The named values of the paper, as texts, each with its origin."""

import math
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from thinwire.errors import UserError
from thinwire.paper import origins, tables
from thinwire.paper.declarations import Declarations, File, Published
from thinwire.paper.origins import Origin
from thinwire.plugins import show
from thinwire.report.collect import collected_folders
from thinwire.statistics.rounding import fixed

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
    """The values of all files that are there.

    Raises:
        UserError: a required file is missing, or a value cannot be taken from its file.
    """
    every = {**declarations.files, **declarations.figures}
    missing = {key: file.made_by for key, file in every.items() if not file.on_disk(results).is_file()}
    for key in missing:
        require(every[key], results)
    values = {name: _published(published) for name, published in declarations.published.items()}
    found = {
        value.origin: _of(published)
        for value, published in zip(values.values(), declarations.published.values())
    }
    collected = collected_folders(results)
    read: dict[str, pd.DataFrame] = {}
    for name, declared in declarations.values.items():
        if declared.file not in declarations.files:
            raise UserError(f"value {name!r} in paper/values.yaml: there is no file {declared.file!r}")
        if declared.file in missing:
            continue
        file = declarations.files[declared.file]
        if declared.file not in read:
            read[declared.file] = _rows(file, results)
        whole = read[declared.file]
        for own_name, rows in tables.groups(name, declared, whole):
            taken = tables.taken(own_name, declared, rows)
            origin = origins.of_rows(file, rows, whole, results, collected)
            if own_name in values:
                raise UserError(f"value {own_name!r} occurs twice in paper/values.yaml")
            values[own_name] = Value(text_of(taken, declared.digits), origin.key)
            found[origin.key] = origin
    missing |= {key: missing[bars.file] for key, bars in declarations.bars.items() if bars.file in missing}
    return Collected(values, found, missing)


def require(file: File, results: Path) -> None:
    """Raise a UserError if the file is required: there is no paper without it."""
    if file.required:
        path = show(file.on_disk(results))
        raise UserError(f"{path} is missing, and the paper needs it: run `{file.made_by}` first")


def text_of(value: Any, digits: int) -> str:
    """A value as the paper prints it."""
    if isinstance(value, str):
        return value
    if pd.isna(value):
        return "n/a"
    if math.isinf(value):
        return "not reached"
    return f"{Decimal(fixed(value, digits)):,}".replace("-", MINUS)


def number_of(text: str) -> float:
    """The number that a value prints.

    Raises:
        ValueError: it prints a word.
    """
    return float(text.replace(MINUS, "-").replace(",", ""))


def _rows(file: File, results: Path) -> pd.DataFrame:
    rows = tables.read(file.on_disk(results), file.made_by)
    return rows[rows["suite"] == file.suite] if file.suite and "suite" in rows else rows


def _published(published: Published) -> Value:
    return Value(published.text.replace("-", MINUS), f"published-{published.of}")


def _of(published: Published) -> Origin:
    note = f"as {published.place} says"
    return Origin(f"published-{published.of}", f"publication {published.of}", "", "", [], note)
