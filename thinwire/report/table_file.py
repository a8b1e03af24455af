"""Tables with the numbers that their files give, so that files, texts and figures cannot disagree."""

from pathlib import Path

import pandas as pd

from thinwire.files import write_text
from thinwire.statistics.rounding import DIGITS, table_digits


def with_table_digits(table: pd.DataFrame) -> pd.DataFrame:
    """The table with all fractions as its file gives them."""
    fractions = table.select_dtypes("float").items()
    return table.assign(**{str(name): column.map(table_digits) for name, column in fractions})


def write(table: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV; missing numbers are empty."""
    write_text(path, csv(table))


def csv(table: pd.DataFrame) -> str:
    """A table as CSV, with nine significant digits."""
    return str(table.to_csv(index=False, float_format=f"%.{DIGITS}g"))
