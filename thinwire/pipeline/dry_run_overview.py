"""What a dry run says about the records of the chosen cells, before Snakemake lists its jobs."""

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from thinwire.config.block import blocks
from thinwire.config.cell import Cell
from thinwire.config.cell_sources import prepares
from thinwire.launch.gpu_claims import gpus_of, gpus_of_preparation
from thinwire.pipeline.slurm_resources import default_setting, nodes, ranks
from thinwire.train.cell_state import DAMAGED, CellState, cell_states, counts

# So many cells are named for each state and reason; `thinwire cells` lists all of them.
_NAMED = 3


def print_overview(cells: Sequence[Cell], workflow: Any) -> None:
    """Print how many cells have a record, and the first of those that have none that holds, by reason.

    On a cluster, print also what the jobs ask for: `workflow` is that of snakemake, with its defaults.
    """
    minutes = default_setting(workflow, "runtime")
    by_suite: dict[str, list[Cell]] = {}
    for cell in cells:
        by_suite.setdefault(cell.suite, []).append(cell)
    for suite, members in by_suite.items():
        states = cell_states(members, Path("results"))
        lines = overview(members, states)
        if minutes:
            lines += jobs([cell for cell, state in zip(members, states) if not state.holds], minutes)
        print(f"{suite}: {lines[0]}", *lines[1:], sep="\n  ", file=sys.stderr)


def overview(cells: Iterable[Cell], states: Sequence[CellState]) -> list[str]:
    """The counts, and then a line for each reason why records do not hold."""
    paths: dict[str, list[str]] = {}
    for cell, state in zip(cells, states):
        if not state.holds:
            # Each damaged record has a reason of its own.
            paths.setdefault(state.word if state.word == DAMAGED else str(state), []).append(cell.path)
    return [counts(states), *(f"{about}: {_listed(named)}" for about, named in paths.items())]


def jobs(cells: Sequence[Cell], minutes: str) -> list[str]:
    """What the jobs that make the records of these cells ask of Slurm: a line for each kind and size.

    Args:
        cells: of a suite.
        minutes: the time that a job asks for, as it is set.
    """
    first = [members[0] for members in blocks(cells).values()]
    sizes = Counter((nodes(cell), ranks(cell) // nodes(cell), gpus_of(cell)) for cell in first)
    lines = [f"train, {_number(n, 'job')}: {_asked(*size)}, {minutes} minutes" for size, n in sizes.items()]
    prepared = {cell.preparation: cell.preparing for cell in cells if prepares(cell)}
    gpus = Counter(gpus_of_preparation(cell) for cell in prepared.values())
    return lines + [
        f"prepare, {_number(n, 'job')} at most: {_asked(1, 1, each)}, {minutes} minutes"
        for each, n in gpus.items()
    ]


def _asked(on_nodes: int, ranks_of_node: int, gpus: int) -> str:
    each = " each" if on_nodes > 1 else ""
    return (
        f"{_number(on_nodes, 'node')} with {_number(ranks_of_node, 'rank')} and {_number(gpus, 'GPU')}{each}"
    )


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _listed(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return ", ".join(paths[:_NAMED]) + more
