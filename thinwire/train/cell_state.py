"""What there is of a cell: a record, none, or one that does not hold any more, and why. It needs no torch."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from thinwire import record
from thinwire.config.cell import Cell
from thinwire.config.cell_sources import sources, sources_of_many
from thinwire.errors import UserError
from thinwire.records.invariants import require_invariants
from thinwire.train.record_out_of_date import Sources, difference, difference_of_inputs, is_there
from thinwire.train.result_folders import record_folder

MISSING, OUT_OF_DATE, DAMAGED = "missing", "out of date", "damaged"


class CellState(NamedTuple):
    """How the run of a cell ended; or `MISSING`, `OUT_OF_DATE` or `DAMAGED`."""

    word: str
    reason: str | None = None

    @property
    def holds(self) -> bool:
        """Is there a sound record of the cell as it is now?"""
        return self.word not in (MISSING, OUT_OF_DATE, DAMAGED)

    def __str__(self) -> str:
        return self.word if self.reason is None else f"{self.word}: {self.reason}"


def cell_state(cell: Cell, results: Path, sources_of: Sources = sources) -> CellState:
    """What there is of a cell in a folder of results."""
    folder = record_folder(results, cell)
    if not is_there(folder):
        return CellState(MISSING)
    try:
        run = record.read_sound(folder / record.RUN)
        reason = difference(run, cell, sources_of) or difference_of_inputs(run, cell, results)
        if reason is None:
            require_invariants(folder, run, cell)
    except UserError as error:
        return CellState(DAMAGED, str(error))
    if reason is not None:
        return CellState(OUT_OF_DATE, f"made with {reason}")
    return CellState(run.status, run.reason)


def cell_states(cells: Iterable[Cell], results: Path) -> list[CellState]:
    """What there is of each of these cells."""
    sources_of = sources_of_many()
    return [cell_state(cell, results, sources_of) for cell in cells]


def counts(states: Iterable[CellState]) -> str:
    """How many cells there are, and how many of them in each state."""
    found = Counter(state.word for state in states)
    number = found.total()
    each = ", ".join(f"{count} {word}" for word, count in found.items())
    return f"{number} cell{'' if number == 1 else 's'}: {each}"
