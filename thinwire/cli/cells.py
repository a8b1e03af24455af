"""`thinwire cells SUITE`."""

from argparse import Namespace
from pathlib import Path

from thinwire.config import grid_subset, profile_file
from thinwire.config.cell import Cell
from thinwire.config.expand_suite import cells
from thinwire.train.cell_state import cell_states, counts


def main(arguments: Namespace) -> int:
    """Print the cells of a suite, one on each line, with what there is of each."""
    chosen = grid_subset.of_words(arguments.only).keep(cells(arguments.suite))
    if arguments.cost is not None:
        _print_cost(chosen, arguments.cost, arguments.results)
        return 0
    states = cell_states(chosen, arguments.results)
    width = max(len(cell.path) for cell in chosen)
    for cell, state in zip(chosen, states):
        shared = f"; prepared from {cell.preparation}" if cell.prepare_from is not None else ""
        print(f"{cell.path:{width}}  {state}{shared}")
    print(counts(states))
    return 0


def _print_cost(chosen: list[Cell], profile: str, results: Path) -> None:
    """Print how long the workers of these cells compute on a described device."""
    from thinwire.simulation.compute_cost import worker_days  # torch, which listing cells does not need

    device = profile_file.load(profile)
    days = worker_days(chosen, device, results)
    print(f"{len(chosen)} cells: {days:.3g} days of one {device.title}, by its compute profile.")
    print("Forward and backward passes only: no communication, input, evaluation or preparation.")
    print(f"How far off that may be: {device.error}.")
