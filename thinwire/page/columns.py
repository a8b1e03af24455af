"""Tables as compact JSON: a list for each column, and each text once."""

import math
from collections.abc import Iterable
from typing import Any

import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from thinwire.statistics.rounding import table_digits

Columns = dict[str, Any]


def columns(frame: pd.DataFrame) -> Columns:
    """The columns of a table by their names, for JSON.

    A column of numbers is a list, in which a missing number is None and an infinite one is the text `inf`. A
    column of texts is `{"words": [...], "codes": [...]}`: each different text once, and for each row the
    place of its text; a missing text has the place -1.
    """
    return {str(name): _column(frame[name]) for name in frame}


def _column(column: pd.Series) -> Any:
    if is_bool_dtype(column):
        return [bool(value) for value in column]
    if is_numeric_dtype(column):
        return _numbers(column.tolist())
    codes, words = pd.factorize(column)
    return {"words": [str(word) for word in words], "codes": codes.tolist()}


def _numbers(values: Iterable[Any]) -> list[float | int | str | None]:
    return [_number(value) for value in values]


def _number(value: Any) -> float | int | str | None:
    if pd.isna(value):
        return None
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    rounded = table_digits(value)
    # 3.0 takes two characters more than 3.
    return int(rounded) if rounded.is_integer() and abs(rounded) < 2**53 else rounded
