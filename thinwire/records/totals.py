"""What is wrong with columns of totals, in a clause; and numbers that are compared up to their rounding."""

from collections.abc import Sequence

import numpy as np

# The columns of a table by name, without unknown ones and those with an empty value.
Columns = dict[str, np.ndarray]


def totals(table: Columns, names: Sequence[str], workers: int, group: np.ndarray) -> str | None:
    """Totals never fall; and a mean over the workers, times their number, is whole, as is a maximum."""
    if what := falling(table, names, group):
        return what
    there = [name for name in names if name in table]
    times = np.array([[1 if "_max_" in name else workers] for name in there])
    if (bad := ~whole(np.stack([table[name] for name in there]) * times)).any():
        column, i = np.argwhere(bad)[0]
        return f"{there[column]} in step {table['step'][i]} is no mean of whole numbers of {workers} workers"
    return None


def falling(table: Columns, names: Sequence[str], group: np.ndarray) -> str | None:
    """Which value is below the one before it in its group, or below 0, or no number?"""
    there = [name for name in names if name in table]
    order = np.argsort(group, kind="stable")
    values = np.stack([table[name] for name in there])[:, order]
    before = np.zeros_like(values)
    before[:, 1:] = np.where(np.diff(group[order]) == 0, values[:, :-1], 0.0)
    if (bad := ~(values >= before)).any():
        column, i = np.argwhere(bad)[0]
        return f"{there[column]} falls to {values[column, i]:g} in step {table['step'][order][i]}"
    return None


def first(bad: np.ndarray) -> int | None:
    """The first row in which something is wrong."""
    return int(bad.argmax()) if bad.any() else None


def whole(values: np.ndarray) -> np.ndarray:
    """Are these whole numbers, but for the rounding of a division and a product?"""
    return np.abs(values - np.round(values)) <= np.maximum(1e-6, 4 * np.spacing(np.abs(values)))


def same(ones: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Are these numbers of bytes the same, but for rounding?"""
    return np.abs(ones - others) <= np.maximum(1e-6, 1e-9 * np.maximum(np.abs(ones), np.abs(others)))


def at_most(values: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Are these numbers of bytes at most as large as others, but for rounding?"""
    return (values <= bounds) | same(values, bounds)
