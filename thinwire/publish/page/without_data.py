"""The times that were simulated without data, for the form and the map of the page.

The page chooses among what was simulated, and interpolates nothing. Numbers are nested lists, which are
smaller than rows: those of a network are addressed by method, by place (workers and nodes) and by link.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from thinwire.config.entries import baselines
from thinwire.config.suite import load
from thinwire.publish.page.runs import looks
from thinwire.report.figures.times_map import LEAST_GAIN
from thinwire.report.plan_table import CLASS_OF, STUDY, Validated, accuracy_in_words, known, of_methods
from thinwire.simulation import simulated_file

DIGITS = 4  # significant ones
_NETWORK = ["suite", "dataset", "model", "accelerator", "cluster"]
_PLACE = ["workers", "nodes"]
_LINK = ["rate_gbit_per_second", "latency_seconds"]


def payload(results: Path) -> dict[str, Any] | None:
    """What was simulated, in types that JSON knows; None if nothing was.

    Returns:
        `networks`, as `_network` gives them; `methods` by their labels, with module, look, class and error
        in the validation, and what is `known` of their accuracy; what `study` knows it; `utilisation`, the
        share of a step that is asked for; `least_gain`, that counts; and what was `validated`, in words.

    Raises:
        UserError: a file cannot be read, or its suite is missing or invalid.
    """
    rows = simulated_file.read_times(results)
    if rows is None:
        return None
    validated = Validated.read()
    methods: dict[str, dict[str, Any]] = {}
    grids: list[tuple[Any, pd.DataFrame]] = []
    for suite, own in rows.groupby("suite"):
        settings = load(str(suite))
        against = baselines(settings)
        for label, drawn in looks([*settings.methods, *own.method.unique()], against).items():
            entry = settings.methods.get(label)
            about = _method(label, (entry.use if entry else None) or label, validated)
            accuracy = "baseline" if label in against else known(label)
            methods.setdefault(label, {**about, **drawn, "known": accuracy})
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


def _method(label: str, module: str, validated: Validated | None) -> dict[str, Any]:
    kind = CLASS_OF.get(module)
    error = None if validated is None or kind is None else validated.median_percent.get(kind)
    return {
        "module": module,
        "class": kind,
        "error_percent": None if error is None else _rounded(error),
        "accuracy": accuracy_in_words(label) if label in of_methods() else None,
    }


def _network(
    about: dict[str, Any], rows: pd.DataFrame, methods: Sequence[str], validated: Validated | None
) -> dict[str, Any]:
    """A network on an accelerator.

    Returns:
        `places` and `links` as pairs; for each place and link `baseline`, the fastest one or None, and
        `validated`; for each method, place and link `milliseconds`, `computing` and `bytes` of a step. A list
        over links whose numbers are all the same is that number.
    """
    labels = sorted(rows.method.unique(), key=methods.index)
    places = sorted(set(rows[_PLACE].itertuples(index=False, name=None)))
    links = sorted(set(rows[_LINK].itertuples(index=False, name=None)))
    shape = (len(labels), len(places), len(links))
    at = (
        rows.method.map(labels.index).to_numpy(),
        [places.index(place) for place in rows[_PLACE].itertuples(index=False, name=None)],
        [links.index(link) for link in rows[_LINK].itertuples(index=False, name=None)],
    )

    def numbers(column: pd.Series) -> list[Any]:
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


def _collapsed(over_links: list[Any]) -> Any:
    first, *others = over_links
    return over_links if any(other != first for other in others) else first


def _rounded(value: float) -> float | int | None:
    if not np.isfinite(value):
        return None
    rounded = float(f"{value:.{DIGITS}g}")
    # 3.0 takes two characters more than 3.
    return int(rounded) if rounded.is_integer() else rounded
