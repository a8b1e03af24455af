"""The table of all ledgers: every traffic of each method, what was prepared, epochs and recipes."""

from collections.abc import Iterable

import pandas as pd

from thinwire.report.rows.quantities import (
    TRAFFIC,
    WITH_PREPARATION,
    WITH_SHARE,
    bytes_column,
    reduction_column,
    runs_to_break_even,
)
from thinwire.report.tables import numbers
from thinwire.report.tables.about import About
from thinwire.report.tables.formats import escaped_markdown

_NOTES = (
    "Payload: what a worker pushes and pulls in the whole run, as encoded, in millions of bytes; mean over "
    "the workers. Less: the reduction of bytes against {baseline}, on as many workers and nodes. Push, pull "
    "and total are payload. Wire is what a worker sends over the network, by the formula for a ring, a chain "
    "or a server; mean over the workers. Busiest link is the most that one worker sends, or receives; a "
    "parameter server's link carries the traffic of all workers."
)
_BETWEEN_NODES = "Between nodes: the part of wire that leaves the worker's node."
_PREPARED = (
    "Prepared: the bytes that the method's preparation sent before its runs, and the seconds that it took in "
    "one process. A preparation is made once for each model, data set and seed. Of the reductions, only "
    "{column} counts its bytes. Breaks even: how many runs must share one preparation, so that together they "
    "send no more than as many runs of {baseline}; empty if no number would do. Used by: how many runs of "
    "the table that are done use one preparation. With preparation, per run: the payload of a run and its "
    "share of the preparation, which these runs divide evenly."
)
_PREPARED_FROM = (
    "Prepared from: the method uses the preparation that was made for this seed or data set, and not one for "
    "its own."
)
_EPOCHS = (
    "Epochs: the number that was trained. A method that forecasts weights skips epochs; its row also has "
    "the number that the trained epochs stand for."
)
_TIMED = (
    "Training: seconds on the clock of the slowest worker, without evaluation; mean ± standard deviation "
    "over the runs."
)


def traffic(table: pd.DataFrame, about: About) -> str:
    """The table in Markdown, with the meaning of its columns.

    Args:
        table: from `summarise`.
        about: what to say about the suite.
    """
    notes = [
        _NOTES.format(baseline=about.baseline),
        *([_BETWEEN_NODES] if _several_nodes(table) else []),
        *([_EPOCHS] if _own_epochs(table) else []),
        *([about.recipes_note] if about.recipes_note else []),
        *(
            [_PREPARED.format(column=f"{WITH_PREPARATION} less, %", baseline=about.baseline)]
            if _prepared(table)
            else []
        ),
        *([_PREPARED_FROM] if about.prepared_from else []),
        *([_TIMED] if _timed(table) else []),
    ]
    parts = [
        f"# Traffic. {escaped_markdown(about.title)}",
        *([escaped_markdown(about.subset)] if about.subset else []),
        ledgers(table, about),
        "\n".join(f"- {escaped_markdown(note)}" for note in notes),
    ]
    return "\n\n".join(parts) + "\n"


def ledgers(table: pd.DataFrame, about: About) -> str:
    """The table alone; the arguments are those of `traffic`."""
    rows = [row for _, row in table.iterrows()]
    shown: dict[str, Iterable[object]] = {
        "data set": map(escaped_markdown, table.dataset),
        "model": map(escaped_markdown, table.model),
        "workers": map(numbers.workers, rows),
        "method": map(escaped_markdown, table.method),
    }
    if _own_epochs(table):
        shown["epochs"] = map(numbers.epochs, rows)
    if about.recipes:
        shown["recipe"] = [about.recipes.get(method, "") for method in table.method]
    if about.prepared_from:
        shown["prepared from"] = [about.prepared_from.get(method, "") for method in table.method]
    shown["payload, MB"] = map(numbers.megabytes, table.total_bytes)
    if _prepared(table):
        shown["prepared, MB"] = map(numbers.megabytes, table.preparation_bytes)
        shown["prepared, s"] = map(numbers.whole_seconds, table.preparation_seconds)
        shown["breaks even, runs"] = map(numbers.ratio, runs_to_break_even(table, about.baseline))
        shown["used by, runs"] = map(numbers.runs_that_share, rows)
        shown["with preparation, per run, MB"] = map(numbers.megabytes, table[bytes_column(WITH_SHARE)])
    for name in TRAFFIC:
        if (name != "between nodes" or _several_nodes(table)) and (
            name != WITH_PREPARATION or _prepared(table)
        ):
            shown[f"{name} less, %"] = map(numbers.percent, table[reduction_column(name)])
    if _timed(table):
        shown["training, s"] = map(numbers.training, rows)
    shown["how"] = table.kind
    text = pd.DataFrame({name: list(values) for name, values in shown.items()})
    return str(text.to_markdown(index=False, disable_numparse=True))


def _several_nodes(table: pd.DataFrame) -> bool:
    return bool((table.nodes > 1).any())


def _prepared(table: pd.DataFrame) -> bool:
    return bool(table.preparation_bytes.notna().any())


def _timed(table: pd.DataFrame) -> bool:
    return bool(table.train_seconds.notna().any())


def _own_epochs(table: pd.DataFrame) -> bool:
    """Do methods differ in the epochs that they train, or that these stand for?"""
    return table.epochs.nunique() > 1 or bool(table.virtual_epochs.notna().any())
