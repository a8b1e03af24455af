"""The table of all ledgers: every traffic of each method, what was prepared, epochs and recipes."""

import pandas as pd

from thinwire.report.savings import TRAFFIC, WITH_PREPARATION, reduction_column
from thinwire.report.tables import numbers
from thinwire.report.tables.about import About
from thinwire.report.tables.markdown import escaped

_NOTES = (
    "Payload: what a worker pushes and pulls in the whole run, as encoded, in millions of bytes; mean over the "
    "workers. Less: the reduction of bytes against {baseline}, on as many workers and nodes. Push, pull and "
    "total are payload. Wire is what a worker sends over the network, by the formula for a ring, a chain or a "
    "server; mean over the workers. Busiest link is the most that one worker sends, or receives; a parameter "
    "server's link carries the traffic of all workers."
)
_BETWEEN_NODES = "Between nodes: the part of wire that leaves the worker's node."
_PREPARED = (
    "Prepared: the bytes that the method's preparation sent before its runs, and the seconds that it took in "
    "one process. A preparation is made once for each model, data set and seed. Only the column {column} "
    "counts its bytes."
)
_EPOCHS = (
    "Epochs: the number that was trained. A method that forecasts weights skips epochs; its row also has "
    "the number that the trained epochs stand for."
)
_TIMED = (
    "Training: seconds on the clock of the slowest worker, without evaluation; mean ± standard deviation over "
    "the runs."
)


def traffic(table: pd.DataFrame, about: About) -> str:
    """The table in Markdown, with the meaning of its columns.

    Args:
        table: from `summarise`.
        about: what to say about the suite.
    """
    several_nodes = bool((table.nodes > 1).any())
    prepared = bool(table.preparation_bytes.notna().any())
    timed = bool(table.train_seconds.notna().any())
    epochs = table.epochs.nunique() > 1 or bool(table.virtual_epochs.notna().any())
    rows = [row for _, row in table.iterrows()]
    shown: dict[str, object] = {
        "data set": map(escaped, table.dataset),
        "model": map(escaped, table.model),
        "workers": map(numbers.workers, rows),
        "method": map(escaped, table.method),
    }
    if epochs:
        shown["epochs"] = map(numbers.epochs, rows)
    if about.recipes:
        shown["recipe"] = [about.recipes.get(method, "") for method in table.method]
    shown["payload, MB"] = map(numbers.megabytes, table.total_bytes)
    if prepared:
        shown["prepared, MB"] = map(numbers.megabytes, table.preparation_bytes)
        shown["prepared, s"] = map(numbers.whole_seconds, table.preparation_seconds)
    for name in TRAFFIC:
        if (several_nodes or name != "between nodes") and (prepared or name != WITH_PREPARATION):
            shown[f"{name} less, %"] = map(numbers.percent, table[reduction_column(name)])
    if timed:
        shown["training, s"] = map(numbers.training, rows)
    shown["how"] = table.kind
    notes = [
        _NOTES.format(baseline=about.baseline),
        *([_BETWEEN_NODES] if several_nodes else []),
        *([_EPOCHS] if epochs else []),
        *([about.recipes_note] if about.recipes_note else []),
        *([_PREPARED.format(column=f"{WITH_PREPARATION} less, %")] if prepared else []),
        *([_TIMED] if timed else []),
    ]
    text = pd.DataFrame({name: list(values) for name, values in shown.items()})  # type: ignore[call-overload]
    parts = [
        f"# Traffic. {escaped(about.title)}",
        *([escaped(about.subset)] if about.subset else []),
        text.to_markdown(index=False, disable_numparse=True),
        "\n".join(f"- {escaped(note)}" for note in notes),
    ]
    return "\n\n".join(parts) + "\n"
