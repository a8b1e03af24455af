"""What a dry run says about the records of the chosen cells, before Snakemake lists its jobs."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from thinwire.config.cell import Cell
from thinwire.train.cell_state import DAMAGED, CellState, cell_states, counts

# So many cells are named for each state and reason; `thinwire cells` lists all of them.
_NAMED = 3


def print_overview(cells: Sequence[Cell]) -> None:
    """Print how many cells have a record, and the first of those that have none that holds, by reason."""
    by_suite: dict[str, list[Cell]] = {}
    for cell in cells:
        by_suite.setdefault(cell.suite, []).append(cell)
    for suite, members in by_suite.items():
        lines = overview(members, cell_states(members, Path("results")))
        print(f"{suite}: {lines[0]}", *lines[1:], sep="\n  ", file=sys.stderr)


def overview(cells: Iterable[Cell], states: Sequence[CellState]) -> list[str]:
    """The counts, and then a line for each reason why records do not hold."""
    paths: dict[str, list[str]] = {}
    for cell, state in zip(cells, states):
        if not state.holds:
            # Each damaged record has a reason of its own.
            paths.setdefault(state.word if state.word == DAMAGED else str(state), []).append(cell.path)
    return [counts(states), *(f"{about}: {_listed(named)}" for about, named in paths.items())]


def _listed(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return ", ".join(paths[:_NAMED]) + more
