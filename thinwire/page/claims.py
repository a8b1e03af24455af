"""The rows of the table of claims."""

from pathlib import Path
from typing import Any

import pandas as pd

from thinwire.page.read_table import read_table
from thinwire.report.result_names import CLAIMS
from thinwire.statistics.rounding import fixed

_TEXTS = [
    "id",
    "suite",
    "publication",
    "claim",
    "method",
    "against",
    "scope",
    "kind",
    "verdict",
    "says",
]
_RECONSTRUCTED = "reconstructed"
_PLACE = ["dataset", "model", "workers", "nodes", "cluster"]
_NUMBERS = ["n", "estimate", "low", "high", "unit"]


def claims(results: Path) -> list[dict[str, Any]] | None:
    """What the page shows of each row, as text; None if there is no such file.

    Raises:
        UserError: the file was changed, cannot be read, or lacks a column.
    """
    table = read_table(results, results / CLAIMS, [*_TEXTS, _RECONSTRUCTED, *_PLACE, *_NUMBERS])
    if table is None:
        return None
    repeated = table.id.duplicated()
    rows = table.to_dict("records")
    return [_row(row) | {"first": not again} for row, again in zip(rows, repeated)]


def _row(row: dict[Any, Any]) -> dict[str, Any]:
    shown = {name: "" if pd.isna(row[name]) else str(row[name]) for name in _TEXTS}
    size = "" if pd.isna(row["workers"]) else f"{row['workers']:g} workers"
    if not pd.isna(row["nodes"]) and row["nodes"] > 1:
        size += f" on {row['nodes']:g} nodes"
    where = [row["dataset"], row["model"], size, row["cluster"]]
    estimate, low, high, unit = (row[name] for name in ("estimate", "low", "high", "unit"))
    interval = "" if pd.isna(low) or pd.isna(high) or low == high else f"{_fixed(low)} to {_fixed(high)}"
    shown_estimate = "" if pd.isna(estimate) else f"{_fixed(estimate)} {'%' if unit == 'percent' else unit}"
    tested = " against ".join(filter(None, (shown["method"], shown["against"])))
    return shown | {
        _RECONSTRUCTED: bool(row[_RECONSTRUCTED]),
        "tested": "; ".join(filter(None, (tested, shown["scope"]))),
        "source": ", ".join(filter(None, (shown["suite"], shown["kind"]))),
        "where": ", ".join(str(part) for part in where if not pd.isna(part) and part),
        "value": "" if pd.isna(estimate) else f"{estimate:g}",
        "estimate": shown_estimate,
        "interval": interval,
        "n": "" if pd.isna(row["n"]) else f"{row['n']:g}",
    }


def _fixed(value: float) -> str:
    """Two decimals, as in the sentence beside it; none where a number has three digits without them."""
    return fixed(value, 0 if abs(value) >= 99.995 else 2).replace("-", "\N{MINUS SIGN}")
