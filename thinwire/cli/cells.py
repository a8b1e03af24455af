"""`thinwire cells SUITE`."""

from argparse import Namespace

from thinwire.config import grid_subset
from thinwire.config.expand_suite import cells
from thinwire.train.cell_state import cell_states, counts


def main(arguments: Namespace) -> int:
    """Print the cells of a suite, one on each line, with what there is of each."""
    chosen = grid_subset.of_words(arguments.only).keep(cells(arguments.suite))
    states = cell_states(chosen, arguments.results)
    width = max(len(cell.path) for cell in chosen)
    for cell, state in zip(chosen, states):
        print(f"{cell.path:{width}}  {state}")
    print(counts(states))
    return 0
