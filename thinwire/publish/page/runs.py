"""What the page reads: tables that may not be there, and the records of runs; and how it writes tables."""

import json
import math
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.colors import to_hex
from matplotlib.markers import MarkerStyle
from pandas.api.types import is_float_dtype, is_numeric_dtype

from thinwire.base import digests
from thinwire.base.errors import UserError
from thinwire.base.names import suggested_command
from thinwire.report.figures.looks import look
from thinwire.report.report_files import COLLECTED, read_csv, require_as_made, table_digits


def read_table(results: Path, path: Path) -> pd.DataFrame | None:
    """The rows of a CSV file in the folder of results; None if there is no such file.

    Raises:
        UserError: the file was changed since it was made, or cannot be read.
    """
    if not path.exists():
        return None
    require_as_made(results, path)
    try:
        return read_csv(path)
    except (ValueError, OSError) as error:
        raise UserError(f"{path} cannot be read ({error}): delete it, and make the tables again") from None


def cell_names(rows: pd.DataFrame) -> list[str]:
    """How a person reads the cell of each row: `digits, cnn, 8 workers on 2 nodes`."""

    def size(workers: float, nodes: float) -> str:
        text = "" if pd.isna(workers) else f"{workers:g} worker{'s' if workers > 1 else ''}"
        return text + (f" on {nodes:g} nodes" if nodes > 1 else "")

    sizes = map(size, rows.workers, rows.nodes)
    return [joined(*row) for row in zip(rows.dataset, rows.model, sizes)]


def joined(*parts: object) -> str:
    """The texts, without those that are missing."""
    return ", ".join(part for part in parts if isinstance(part, str) and part)


def columns(frame: pd.DataFrame) -> dict[str, object]:
    """The columns of a table by their names, for JSON.

    A column of numbers is a list, in which a missing number is None and an infinite one is the text `inf`. A
    column of texts is `{"words": [...], "codes": [...]}`: each different text once, and for each row the
    place of its text; a missing text has the place -1. Where all rows are equal, `{"every": ..., "rows": n}`
    may be shorter. Finite numbers are written in the shortest of these ways.
    """
    return {str(name): _column(frame[name]) for name in frame}


def _column(column: pd.Series) -> object:
    codes, words = pd.factorize(column)
    values, once = column.tolist(), words.tolist()
    if is_float_dtype(column):
        values, once = [*map(_number, values)], [*map(_number, once)]
        if np.isinf(words).any():
            return values
    ways: list[object] = [values]
    if not is_numeric_dtype(column):
        once, ways = [*map(str, once)], []
    ways.append({"words": once, "codes": codes.tolist()})
    if len(set(codes)) == 1:
        ways.append({"every": once[0] if once else None, "rows": len(codes)})
    return min(ways, key=lambda way: len(json.dumps(way)))


def _number(value: Any) -> float | int | str | None:
    if pd.isna(value):
        return None
    if math.isinf(value):
        return str(value)
    rounded = table_digits(value)
    # 3.0 takes two characters more than 3.
    return int(rounded) if rounded.is_integer() and abs(rounded) < 2**53 else rounded


def looks(methods: Iterable[str], baselines: Collection[str]) -> dict[str, dict[str, Any]]:
    """How each method is drawn, as figures draw it.

    Returns:
        For each method `colour` for CSS, which is that of the page's text for baselines; `shape`, a path of
        SVG between -1.5 and 1.5; and `dash`, pixels of dashes and gaps.
    """
    found: dict[str, dict[str, Any]] = {}
    for method in methods:
        drawn = look(method)
        # A dark page has lighter colours.
        colour = f"color-mix(in srgb, {to_hex(drawn.colour)} var(--pure), white)"
        found[method] = {
            "colour": "var(--text)" if method in baselines else colour,
            "shape": _path(drawn.marker),
            "dash": [2 * length for length in drawn.dash],
        }
    return found


@cache
def _path(marker: str) -> str:
    if marker == "o":
        return "M-1,0A1,1,0,1,1,1,0A1,1,0,1,1,-1,0Z"
    style = MarkerStyle(marker)
    corners = 2 * style.get_transform().transform(np.asarray(style.get_path().vertices)[:-1]) * [1, -1]
    return f"M{'L'.join(f'{x:g},{y:g}' for x, y in corners.round(2) + 0.0)}Z"


def read_runs(
    results: Path, suite: str, collected: pd.DataFrame
) -> tuple[pd.DataFrame, list[dict[str, object]]]:
    """What the records of the runs of a suite say besides its collected rows of `summary.csv`.

    Returns:
        A row for each run; and the provenances that runs have, each once, with their places in `origin`.

    Raises:
        UserError: a record is missing, or is not the one that was collected.
    """
    origins: dict[str, int] = {}
    rows = []
    try:
        listed = [*digests.read_json(results / COLLECTED)["records"].items()]
        for place, digest in (listed[i] for i in collected.index):
            path = results / place
            made, now = digests.read_json_and_digest(path)
            if now != digest:
                raise digests.Damaged(f"{path} is not the record that was collected")
            provenance = made["provenance"]
            origin = json.dumps(_origin(provenance))
            rows.append(
                {
                    "path": path.parent.relative_to(results / "runs" / suite).as_posix(),
                    "options": ", ".join(f"{name} {value}" for name, value in made["method_options"].items()),
                    "interruptions": made.get("interruptions", 0),
                    "seed": str(provenance.get("seed", "")),  # it has more digits than numbers of JavaScript
                    "fingerprint": made["fingerprint"],
                    "origin": origins.setdefault(origin, len(origins)),
                }
            )
    except (digests.Damaged, LookupError) as error:
        again = suggested_command("collect", suite, results=results)
        what = error if isinstance(error, UserError) else f"{results / COLLECTED} is of an earlier version"
        raise UserError(f"{what}: run {again}") from None
    return pd.DataFrame(rows, index=collected.index), [json.loads(origin) for origin in origins]


def _origin(provenance: Mapping[str, Any]) -> dict[str, str]:
    """The code and the machine of a run, without what only this run has."""
    git, hardware = provenance.get("git") or {}, provenance.get("hardware") or {}
    packages = provenance.get("packages") or {}
    found = {
        "thinwire": provenance.get("thinwire"),
        "version of the rules": provenance.get("rules"),
        "git revision": git.get("revision"),
        "uncommitted changes": git.get("changes_sha256") or "none",
        "Python": provenance.get("python"),
        "PyTorch": provenance.get("torch_build"),
        "NumPy": packages.get("numpy"),
        **{name: hardware.get(name) for name in ("processor", "cores", "threads", "device", "system")},
    }
    return {name: str(value) for name, value in found.items() if value is not None}
