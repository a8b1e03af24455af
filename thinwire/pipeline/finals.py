"""What rules need to know of the finals of a tuning, the further runs of its best trials.

Which trials these are is known when all have ended. So the job of a block of finals promises no records, but
an empty file that says that it has ended, and the checkpoint `finalists` comes before it.
"""

from collections.abc import Callable, Container
from pathlib import Path
from typing import Any

from thinwire.base import digests
from thinwire.config import tuning_space
from thinwire.config.cell import Cell
from thinwire.config.entries import entries_of
from thinwire.config.suite import path_of, read
from thinwire.config.trials import Stage, finalists_path, is_finals, only_finalists
from thinwire.pipeline.grid import Grid, OfWildcards, Shape
from thinwire.pipeline.inputs import prepared_for_block
from thinwire.records import record

_RESULTS = Path("results")


def _mark(block: str) -> str:
    """The file that says that a block of finals has ended."""
    return f"results/finalists/{block}.done"


def finished(grid: Grid, tuned: str) -> list[str]:
    """The files that say that the finals of a tuning have ended, one for each block."""
    of = {path: block[0].suite for path, block in grid.blocks.items() if is_finals(block[0].suite)}
    return [_mark(path) for path, suite in of.items() if Stage.named(suite).of == tuned]


def records_of_trials(grid: Grid, tuned: str) -> list[str]:
    """The records of the first runs of all trials of a tuning."""
    own = [suite for suite in grid.suites if Stage.named(suite).of == tuned]
    return [path for suite in own for path in grid.records(record.RUN, suite=suite)]


def settings_of_tuning(tuned: str) -> str:
    """Changes when what is chosen from may, or how: an entry of the suite, its recipe, or the tuning."""
    suite = read(path_of(tuned))
    settings = suite.model_dump(mode="json", include={"methods", "baseline", "leave_out", "recipe"})
    return digests.of_identity([settings, [*entries_of(suite)], tuning_space.read(tuned).digest])


def trained(grid: Grid, planned: Container[str]) -> list[Cell]:
    """The cells of finals, of all trials, in the blocks whose ends are among the planned files."""
    return [cell for path, block in grid.blocks.items() if _mark(path) in planned for cell in block]


def made_by(grid: Grid, shape: Shape) -> list[str]:
    """The outputs of the rule of a shape: the records of a block, or of finals the file that says so."""
    place = f"{shape.suite}/{{dataset}}/{{model}}"
    if is_finals(shape.suite):
        return [_mark(f"{place}/{{size}}/{{seed}}")]
    methods, files = grid.methods_of(shape.suite), (record.RUN, record.CURVE, record.TRAFFIC)
    return [f"results/runs/{place}/{method}/{{size}}/{{seed}}/{file}" for method in methods for file in files]


def at_the_end(shape: Shape) -> str:
    """What the command of this rule does after its runs."""
    return "; touch {output:q}" if is_finals(shape.suite) else ""


def needed_by(shape: Shape) -> list[str]:
    """The file with the finalists, for their finals."""
    stage = Stage.named(shape.suite)
    return [str(finalists_path(_RESULTS, stage.of))] if is_finals(shape.suite) else []


def prepared_for(grid: Grid, shape: Shape, checkpoints: Any) -> OfWildcards[list[str]]:
    """What methods have prepared for a block.

    Args:
        grid: has the block.
        shape: of the block.
        checkpoints: of Snakemake; it asks again for the finals when it is known which trials are the best.
    """
    if not is_finals(shape.suite):
        return grid.of_block(shape.suite, prepared_for_block)

    def of_wildcards(wildcards: Any) -> list[str]:
        checkpoints.finalists.get(tuned=Stage.named(shape.suite).of)
        return grid.of_block(shape.suite, _of_finalists(prepared_for_block))(wildcards)

    return of_wildcards


def _of_finalists(what: Callable[[list[Cell]], list[str]]) -> Callable[[list[Cell]], list[str]]:
    return lambda block: what(only_finalists(block, _RESULTS))
