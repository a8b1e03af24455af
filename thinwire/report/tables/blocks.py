"""The blocks of the summary."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import pandas as pd

from thinwire.report.report_files import FEWEST_REPETITIONS
from thinwire.report.rows.quantities import BLOCK, SETTING
from thinwire.report.tables import numbers
from thinwire.report.tables.about import About, partition_in_words
from thinwire.report.tables.numbers import Mark

_RUNS = {
    "inprocess": "in one process, so without measured times",
    "measured": "measured, with a process for each worker",
    "emulated": "emulated, with a process for each worker",
}


class Value(NamedTuple):
    """A value in a table."""

    text: str
    mark: Mark = Mark.NONE


class Block(NamedTuple):
    """One table with what stands around it, in plain text."""

    heading: str
    origin: str  # how its runs and times were made
    columns: list[str]
    rows: list[list[Value]]
    remarks: list[str]  # sentences: why scores cannot be compared, and why runs failed


def is_text(column: str) -> bool:
    """Does this column have words? The others have numbers."""
    return column == "method" or column.startswith("against ")


def blocks(table: pd.DataFrame, about: About) -> list[Block]:
    """The blocks of a summary with the columns of `summarise`, `with_comparisons` and `with_times`."""
    return [_block(block, about) for _, block in table.groupby(BLOCK, sort=False)]


def _block(block: pd.DataFrame, about: About) -> Block:
    first = block.iloc[0]
    shown = {
        "method": _plain(_methods(block, about)),
        "payload, MB": _plain(map(numbers.megabytes, block.total_bytes)),
    }
    saved = map(numbers.percent, block.total_with_prepared_reduction_percent)
    if block.preparation_bytes.notna().any():
        shown["saved, %"] = _plain(map(numbers.percent, block.total_reduction_percent))
        shown["saved with preparation, %"] = _marked(saved, numbers.of_savings(block))
    else:
        shown["saved, %"] = _marked(saved, numbers.of_savings(block))
    shown[f"{about.evaluated_on.replace('_', '-')} {about.task.axis}"] = _marked(
        (numbers.score(row, about.task.unit.digits) for _, row in block.iterrows()),
        numbers.of_scores(block, about.baseline),
    )
    if block.words.notna().any():
        shown[f"against {about.baseline}"] = _plain(_verdicts(block, about.baseline))
    if block.seconds_to_target.notna().any():
        seconds = map(numbers.to_target, block.seconds_to_target)
        shown["to target, s"] = _marked(seconds, numbers.of_seconds_to_target(block, about.baseline))
    if block.step_speed_up.notna().any():
        shown["speed-up"] = _marked(map(numbers.ratio, block.step_speed_up), numbers.of_speed_ups(block))
    return Block(
        heading=f"{first.dataset}, {first.model}, {_workers(first)}",
        origin=_origin(first, about) + _partition(block),
        columns=list(shown),
        rows=[list(row) for row in zip(*shown.values())],
        remarks=[*_inconclusive(block, about.baseline), *_failures(block)],
    )


def _plain(texts: Iterable[str]) -> list[Value]:
    return [Value(text) for text in texts]


def _marked(texts: Iterable[str], found: list[Mark]) -> list[Value]:
    return [Value(text, mark) for text, mark in zip(texts, found)]


def _methods(block: pd.DataFrame, about: About) -> list[str]:
    """Labels, with the epochs where methods of the block differ in them, and whose preparation is used."""
    same_epochs = block.epochs.nunique() == 1 and block.virtual_epochs.isna().all()
    found = []
    for _, row in block.iterrows():
        more = [] if same_epochs else [f"{numbers.epochs(row)} epochs"]
        if row.method in about.prepared_from:
            more.append(f"prepared from {about.prepared_from[row.method]}")
        found.append(f"{row.method} ({', '.join(more)})" if more else str(row.method))
    return found


def _workers(row: pd.Series) -> str:
    if row.workers == 1:
        return "1 worker"
    return f"{row.workers} workers" + (f" on {row.nodes} nodes" if row.nodes > 1 else "")


def _origin(first: pd.Series, about: About) -> str:
    runs = _RUNS[first.kind]
    if first.kind == "emulated" and about.cluster:
        runs += f", on the cluster {about.cluster}"
    text = f"Runs: {runs}."
    if not pd.isna(first.time_from):
        text += f" Times: {first.time_from}"
        elsewhere = first.time_nodes != first.nodes
        text += f", where the workers fill {first.time_nodes:g} nodes." if elsewhere else "."
    return text


def _partition(block: pd.DataFrame) -> str:
    words = partition_in_words(block)
    return f" Partition: {words}." if words else ""


def _verdicts(block: pd.DataFrame, baseline: str) -> list[str]:
    """The words of the comparison up to a colon; what comes after it stands below the table."""
    words = block.words.fillna("").str.partition(":")[0]
    return ["baseline" if method == baseline else text for method, text in zip(block.method, words)]


def _inconclusive(block: pd.DataFrame, baseline: str) -> list[str]:
    """The words with a colon in full, with the methods for which they hold."""
    compared = block[block.words.notna() & (block.method != baseline)]
    found: dict[str, list[str]] = {}
    for words, label in zip(compared.words, compared.method):
        found.setdefault(words, []).append(label)
    return [
        f"{words[0].upper()}{words[1:]} ({'every method' if len(found) == 1 else ', '.join(labels)})."
        for words, labels in found.items()
        if ":" in words
    ]


def _failures(block: pd.DataFrame) -> list[str]:
    return [f"{label!s}: {why!s}." for label, why in zip(block.method, block.reason) if why]


_KEY = [*SETTING, "method", "kind"]
COMPARED = ["n", "gain_mean", "gain_low", "gain_high", "verdict", "words"]


def with_comparisons(table: pd.DataFrame, comparisons: pd.DataFrame) -> pd.DataFrame:
    """Add the columns `COMPARED`; they are empty in rows that are compared with nothing, or in one pair each.

    Args:
        table: from `summarise`.
        comparisons: one row for each setting, method and kind, in pairs of runs with the suite's baseline.
    """
    if comparisons.empty or comparisons.n.max() < FEWEST_REPETITIONS:
        return table.assign(**dict.fromkeys(COMPARED))
    return table.merge(comparisons[[*_KEY, *COMPARED]], on=_KEY, how="left", validate="one_to_one")


_FOUND = {"speed_up": "step_speed_up", "seconds_to_target": "seconds_to_target"}
TIMED = ["time_from", "time_nodes", "target_score", *_FOUND.values()]


def with_times(table: pd.DataFrame, times: pd.DataFrame) -> pd.DataFrame:
    """Add the columns `TIMED`; they are empty where no time is known.

    Times of a block's own runs are preferred. Otherwise they are simulated, on one cluster: the first that
    has the block's number of nodes, or else the first.

    Args:
        table: from `summarise`.
        times: the table of times; rows of links that do not have their own rates are left out.
    """
    if times.empty:
        return table.assign(**dict.fromkeys(TIMED, math.nan))
    times = times[times.own_rate.astype(bool)]
    return pd.concat([_with_place(block, times) for _, block in table.groupby(BLOCK, sort=False)])


def _with_place(block: pd.DataFrame, times: pd.DataFrame) -> pd.DataFrame:
    """Add the columns to the rows of one block."""
    first = block.iloc[0]
    there = times[
        (times.dataset == first.dataset) & (times.model == first.model) & (times.workers == first.workers)
    ]
    alike = there.nodes == first.nodes
    ranked = [there[(there.kind == first.kind) & alike], there[(there.kind == "simulated") & alike]]
    candidates = next((rows for rows in ranked if len(rows)), there[there.kind == "simulated"])
    if candidates.empty:
        return block.assign(**dict.fromkeys(TIMED, math.nan))
    place = candidates.iloc[0]
    same = (candidates.cluster == place.cluster) & (candidates.nodes == place.nodes)
    found = candidates[same].set_index("method")
    columns = {new: block.method.map(found[old]).astype(float) for old, new in _FOUND.items()}
    return block.assign(
        time_from=_timed_origin(place),
        time_nodes=place.nodes,
        target_score=place.target_score,
        **columns,
    )


def _timed_origin(place: pd.Series) -> str:
    """How the times of a place came about: `simulated (ethernet_1g)`."""
    return f"{place.kind} ({place.cluster})" if place.cluster else str(place.kind)
