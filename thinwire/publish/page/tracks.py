"""The leader boards of the tracks, as the page shows them."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from thinwire.config.suite import load
from thinwire.publish.page.runs import read_table
from thinwire.report.report_files import SCORES, fixed
from thinwire.report.track import NO_SCORE, note


class Cell(NamedTuple):
    """A cell of a table: its text, and a number by which rows are sorted, or None."""

    text: str
    value: float | None = None


class Board(NamedTuple):
    """The leader board of a track; each row begins with the module of its method, "" of a submission."""

    name: str
    title: str
    note: str
    heads: list[str]
    rows: list[tuple[str, list[Cell]]]


def boards(results: Path, suites: Sequence[str]) -> list[Board]:
    """The boards of the suites that have scores.

    Raises:
        UserError: a table was changed since it was made, or cannot be read.
    """
    found = []
    for name in suites:
        table = read_table(results, results / "tables" / name / f"{SCORES}.csv")
        if table is not None:
            suite = load(name)
            modules = {label: entry.use or label for label, entry in suite.methods.items()}
            rows = [_row(row) for row in table.to_dict("records")]
            of_methods = [modules.get(label, "") for label in table.method]
            found.append(
                Board(name, suite.title, note(suite), list(rows[0]), list(zip(of_methods, _cells(rows))))
            )
    return found


def _cells(rows: Sequence[dict[str, Cell]]) -> list[list[Cell]]:
    return [list(row.values()) for row in rows]


def _row(row: Mapping[Any, Any]) -> dict[str, Cell]:
    has_score = math.isfinite(row["score_seconds"])
    score, steps, rank = row["score_seconds"], row["steps_to_target_median"], row["rank"]
    return {
        "rank": Cell(str(rank), rank) if has_score else Cell(""),
        "method": Cell(row["method"]),
        "score, s": Cell(fixed(score, 2), score) if has_score else Cell(NO_SCORE),
        "steps": Cell(f"{steps:g}", steps) if has_score else Cell(""),
        "ms a step": Cell(fixed(1e3 * row["seconds_a_step_simulated"], 1), row["seconds_a_step_simulated"]),
        "n": Cell(f"{row['reached']} of {row['runs']}", row["reached"]),
        "better than": Cell("" if pd.isna(row["better_than"]) else row["better_than"]),
        "tier": Cell(row["tier"]),
        "date": Cell(row["date"]),
        "commit": Cell(row["commit"]),
    }
