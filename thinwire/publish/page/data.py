"""What the scripts of the page read beside a suite's report, and how tables are written.

Among times that were simulated without data the page chooses, and interpolates nothing. Their numbers are
nested lists, which are smaller than rows: by method, by place (workers and nodes) and by link.
"""

import json
import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypedDict, TypeVar

import numpy as np
import pandas as pd
from matplotlib.colors import to_hex
from matplotlib.markers import MarkerStyle
from pandas.api.types import is_float_dtype, is_numeric_dtype

from thinwire.base import digests
from thinwire.base.errors import UserError
from thinwire.base.folders import suggested_command
from thinwire.config.entries import baselines
from thinwire.config.suite import load
from thinwire.config.suite_schema import Suite
from thinwire.report.figures.looks import look
from thinwire.report.figures.times_map import LEAST_GAIN
from thinwire.report.plan_table import CLASS_OF, STUDY, Validated, accuracy_in_words, known, of_methods
from thinwire.report.report_files import COLLECTED, read_csv, require_as_made, table_digits
from thinwire.simulation import simulated_file


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


def _number(value: float | None) -> float | int | str | None:
    if pd.isna(value):
        return None
    if math.isinf(value):
        return str(value)
    return _shortest(table_digits(value))


def _shortest(value: float) -> float | int:
    """3.0 takes two characters more than 3."""
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def looks(methods: Iterable[str], baselines: Collection[str]) -> dict[str, dict[str, object]]:
    """How each method is drawn, as figures draw it.

    Returns:
        For each method `colour` for CSS, which is that of the page's text for baselines; `shape`, a path of
        SVG between -1.5 and 1.5; and `dash`, pixels of dashes and gaps.
    """
    found: dict[str, dict[str, object]] = {}
    for method, drawn in ((method, look(method)) for method in methods):
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


_NETWORK = ["suite", "dataset", "model", "accelerator", "cluster"]
_PLACE, _LINK = ["workers", "nodes"], ["rate_gbit_per_second", "latency_seconds"]
T = TypeVar("T")


class Times(TypedDict):
    """What was simulated without data, in types that JSON knows."""

    networks: list[dict[str, object]]  # as `_network` gives them
    methods: dict[str, dict[str, object]]  # by label: module, look, class, error, and what is known of each
    study: str  # the suite that knows the accuracies
    utilisation: float  # the share of a step that is asked for
    least_gain: float  # that counts
    validated: str | None  # in words


def times_without_data(results: Path) -> Times | None:
    """What was simulated, None if nothing was; a UserError if a file or its suite cannot be read."""
    rows = simulated_file.read_times(results)
    if rows is None:
        return None
    validated = Validated.read()
    methods: dict[str, dict[str, object]] = {}
    grids: list[tuple[tuple[Hashable, ...], pd.DataFrame]] = []
    for suite, own in rows.groupby("suite"):
        settings = load(str(suite))
        against = baselines(settings)
        for label, drawn in looks([*settings.methods, *own.method.unique()], against).items():
            accuracy = "baseline" if label in against else known(label)
            methods.setdefault(label, {**_method(label, settings, validated), **drawn, "known": accuracy})
        places = {label: place for place, label in enumerate(settings.models)}
        ordered = own.sort_values("model", key=lambda labels: labels.map(places), kind="stable")
        grids += ordered.groupby(_NETWORK, sort=False)
    from thinwire.simulation.plan import UTILISATION  # torch, which other pages do not need

    return {
        "networks": [_network(dict(zip(_NETWORK, key)), own, list(methods), validated) for key, own in grids],
        "methods": {label: about for label, about in methods.items() if label in set(rows.method)},
        "study": STUDY,
        "utilisation": UTILISATION,
        "least_gain": LEAST_GAIN,
        "validated": None if validated is None else validated.range_in_words(),
    }


def _method(label: str, suite: Suite, validated: Validated | None) -> dict[str, object]:
    entry = suite.methods.get(label)
    module = (entry.use if entry else None) or label
    kind = CLASS_OF.get(module)
    error = None if validated is None or kind is None else validated.median_percent.get(kind)
    return {
        "module": module,
        "class": kind,
        "error_percent": None if error is None else _rounded(error),
        "accuracy": accuracy_in_words(label) if label in of_methods() else None,
    }


def _network(
    about: Mapping[str, object], rows: pd.DataFrame, methods: Sequence[str], validated: Validated | None
) -> dict[str, object]:
    """A network on an accelerator.

    Returns:
        `places` and `links` as pairs; for each place and link `baseline`, the fastest one or None, and
        `validated`; for each method, place and link `milliseconds`, `computing` and `bytes` of a step. A list
        over links whose numbers are all the same is that number.
    """
    labels = sorted(rows.method.unique(), key=methods.index)
    place_of, link_of = ([*rows[names].itertuples(index=False, name=None)] for names in (_PLACE, _LINK))
    places, links = sorted(set(place_of)), sorted(set(link_of))
    shape = (len(labels), len(places), len(links))
    at = (
        rows.method.map(labels.index).to_numpy(),
        [places.index(place) for place in place_of],
        [links.index(link) for link in link_of],
    )

    def numbers(column: pd.Series) -> list[object]:
        table = np.full(shape, np.nan)
        table[at] = column
        return [[_collapsed([_rounded(x) for x in over]) for over in own] for own in table.tolist()]

    fastest = np.full(shape[1:], None, dtype=object)
    fastest[at[1:]] = rows.baseline.where(rows.baseline.notna(), None)
    holds = [
        [validated is not None and validated.holds(workers, rate) for rate, _ in links]
        for workers, _ in places
    ]
    return {
        **about,
        "methods": labels,
        "places": places,
        "links": links,
        "baseline": [_collapsed(over) for over in fastest.tolist()],
        "validated": [_collapsed(over) for over in holds],
        "milliseconds": numbers(1e3 * rows.step_seconds),
        "computing": numbers(1e3 * rows.compute_seconds),
        "bytes": numbers(rows.between_nodes_bytes),
    }


def _collapsed(over_links: list[T]) -> list[T] | T:
    first, *others = over_links
    return over_links if any(other != first for other in others) else first


def _rounded(value: float) -> float | int | None:
    return _shortest(float(f"{value:.4g}")) if np.isfinite(value) else None
