"""Numbers in the text of pages, taken from the committed tables and the points of newest records.

`numbers.yaml` beside this file lists them: for each page, pieces of its text with `{}` in the place of each
number, and the value of a table for each. `update_docs.py` writes the numbers, and tests refuse any other.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

import pandas as pd
from pydantic import Field

from benchmarks import committed_tables
from thinwire.base.errors import UserError
from thinwire.base.options import Strict
from thinwire.config import yaml_file
from thinwire.plugins import ROOT
from thinwire.publish.paper import declarations
from thinwire.publish.paper.values import MINUS, text_of
from thinwire.report import report_files
from thinwire.report.figures import times_map
from thinwire.report.plan_table import fastest
from thinwire.simulation import simulated_file

LIST = Path(__file__).with_name("numbers.yaml")
_NUMBER = r"[-+]?\d[\d,]*(?:\.\d+)?"
# Code, tables, comments, targets of links, numbers of items, and names are no text.
_NO_TEXT = re.compile(
    r"^```.*?^```|^\|[^\n]*|`[^`\n]*`|<!--.*?-->|!\[[^]]*\]|\]\([^)]*\)|^ *\d\. "
    r"|\b[A-Z][\w-]*\d[\w.]*|BY \d\.\d",
    re.DOTALL | re.MULTILINE,
)


class Page(Strict):
    """The numbers of a page."""

    typed: dict[str, str] = Field(default={}, description="pieces that no result decides, and what does")
    taken: dict[str, list[declarations.Declared]] = Field(default={}, description="values of tables")


class Numbers(Strict):
    """The content of `numbers.yaml`."""

    files: dict[str, str]  # in the folder of committed results
    pages: dict[str, Page]


@cache
def read() -> Numbers:
    """All numbers."""
    return yaml_file.read(LIST, Numbers, "the list of numbers", "benchmarks/prose_numbers.py")


def filled(page: str, text: str) -> str:
    """The text of a page with the numbers that the committed tables have.

    Raises:
        UserError: a piece of text is not on the page, or more than once.
    """
    for piece, numbers in read().pages.get(page, Page()).taken.items():
        match = _only(piece, page, text)
        values = [_value(piece, number) for number in numbers]
        for place in reversed(range(len(values))):
            start, end = match.span(place + 1)
            text = f"{text[:start]}{values[place]}{text[end:]}"
    return text


def unexplained(page: str, text: str) -> list[str]:
    """The numbers in the text of a page that are in none of its pieces."""
    own = read().pages.get(page, Page())
    left = text
    for piece in (*own.typed, *own.taken):
        start, end = _only(piece, page, text).span()
        left = f"{left[:start]}{' ' * (end - start)}{left[end:]}"
    return re.findall(_NUMBER, _NO_TEXT.sub(" ", left))


def _only(piece: str, page: str, text: str) -> re.Match[str]:
    pattern = r"\s+".join(map(re.escape, piece.split())).replace(re.escape("{}"), f"({_NUMBER})")
    found = list(re.finditer(rf"(?<![\d.]){pattern}", text))
    if len(found) != 1:
        raise UserError(f"{page} has {piece!r} {len(found)} times: benchmarks/numbers.yaml needs it once")
    return found[0]


def _value(piece: str, declared: declarations.Declared) -> str:
    _, rows = next(declarations.groups(piece.replace("{}", "#"), declared, _rows(declared.file)))
    if rows.empty:
        raise UserError(f"benchmarks/numbers.yaml: no row has what the number in {piece!r} is taken from")
    return text_of(declarations.taken(piece, declared, rows), declared.digits).replace(MINUS, "-")


@cache
def _rows(file: str) -> pd.DataFrame:
    if file in _MADE:
        return _MADE[file]()
    return declarations.read_rows(committed_tables.FOLDER / read().files[file], "thinwire rebuild")


def _of_map(left_out: Sequence[str], latency: Literal["min", "max"] = "min") -> pd.DataFrame:
    """The cells of the map, or of one with other latencies, with the fastest method of each."""
    times = simulated_file.read_times(committed_tables.FOLDER)
    if times is None:
        raise UserError("the committed results have no times")
    rows = times_map.shown(times, latency)
    return fastest(rows[~rows.method.isin(left_out)])


def _ends_of_length() -> pd.DataFrame:
    """The last evaluations in the suites `length/*`, and how far each training loss is above SSGD's."""
    rows = pd.read_parquet(committed_tables.FOLDER / report_files.CURVES)
    rows = rows[rows.suite.str.startswith("length/") & (rows.epoch == rows.epochs)]
    ends = rows.set_index(["suite", "repetition"])
    return ends.assign(above_ssgd=ends.train_loss - ends.train_loss[ends.method == "ssgd"]).reset_index()


def _points(name: str) -> pd.DataFrame:
    """The simulated and measured points of the newest record of a benchmark."""
    return declarations.read_rows(ROOT / "benchmarks" / "records" / f"{name}.csv", "the benchmark")


# The two lines of the map's panels, where the trainings of different length ended, and points of benchmarks.
_MADE: dict[str, Callable[[], pd.DataFrame]] = {
    "length_ends": _ends_of_length,
    "map_at_every_step": lambda: _of_map(times_map.LINES[0][1]),
    "map": lambda: _of_map(times_map.LINES[1][1]),
    "map_far": lambda: _of_map(times_map.LINES[1][1], "max"),
    "validation": lambda: _points("validation"),
    "latency": lambda: _points("latency"),
}
