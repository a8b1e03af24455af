"""The note above a table that shows a subset of its suite."""

from collections.abc import Callable, Sequence

import pandas as pd

from thinwire.config.cell import Cell

_PARTS: dict[str, Callable[[Cell], str]] = {
    "Data sets": lambda cell: cell.dataset,
    "Models": lambda cell: cell.model.label,
    "Methods": lambda cell: cell.method.label,
    "Workers": lambda cell: cell.size_label,
    "Repetitions": lambda cell: f"seed{cell.repetition}",
}


def subset_note(runs: pd.DataFrame, every: Sequence[Cell], baseline: str) -> str | None:
    """Say which part of a suite these runs are; None if they are all of it.

    Args:
        runs: one row for each run, as collected.
        every: all cells of the suite.
        baseline: label of the method that the others are compared with.
    """
    columns = ["dataset", "model", "method", "workers", "nodes", "repetition"]
    collected = set(runs[columns].itertuples(index=False, name=None))
    shown = [cell for cell in every if _row(cell) in collected]
    if len(shown) == len(every):
        return None
    note = f"A subset: {len(shown)} of the suite's {len(every)} runs."
    for part, name_of in _PARTS.items():
        names, all_names = (dict.fromkeys(map(name_of, cells)) for cells in (shown, every))
        if len(names) < len(all_names):
            note += f" {part}: {', '.join(names)} ({len(names)} of {len(all_names)})."
    if baseline not in {cell.method.label for cell in shown}:
        note += f" The baseline {baseline} is not among them, so there is nothing to compare with."
    return note


def _row(cell: Cell) -> tuple[str | int, ...]:
    return cell.dataset, cell.model.label, cell.method.label, cell.workers, cell.nodes, cell.repetition
