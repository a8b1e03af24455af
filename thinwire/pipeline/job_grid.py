"""The grid of the chosen suites: every cell, and what several cells share.

Methods that begin with `of_` are for rules: each turns a function of a cell into one of a job's wildcards.
"""

from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any, TypeVar

from thinwire import record
from thinwire.config.block import blocks
from thinwire.config.cell import Cell
from thinwire.config.expand_suite import cells
from thinwire.config.grid_subset import WHOLE, Subset
from thinwire.config.types import Module
from thinwire.errors import UserError
from thinwire.label import clash
from thinwire.launch.gpu_claims import gpus_of
from thinwire.nvidia_smi import visible_gpus
from thinwire.pipeline.check_options import check_options
from thinwire.tracking.wandb_names import project

T = TypeVar("T")
OfWildcards = Callable[[Any], T]


class Grid:
    def __init__(self, every: Sequence[Cell], whole: Container[str] = ()) -> None:
        """Lay out these cells.

        Args:
            every: cells of one suite or of several.
            whole: the suites of which no cell is missing.

        Raises:
            UserError: two suites mean different data sets by one label, or by two that differ in case only.
        """
        self.cells = {f"{cell.suite}/{cell.path}": cell for cell in every}
        # The cell that each preparation is made for. With a subset it need not be in the grid itself.
        self.preparations = {f"{cell.suite}/{cell.preparation}": cell.preparing for cell in every}
        self.blocks = blocks(every)
        self.datasets = _datasets([*every, *self.preparations.values()])
        # Suites by the name that they have in W&B.
        self.projects = {project(cell.suite): cell.suite for cell in every}
        self.suites = _unique([cell.suite for cell in every])
        self.whole = whole

    def methods_of(self, suite: str) -> list[str]:
        """The labels of a suite's methods."""
        return _unique([cell.method.label for cell in self.cells_of(suite)])

    def cells_of(self, suite: str) -> list[Cell]:
        """The cells of a suite."""
        return [cell for cell in self.cells.values() if cell.suite == suite]

    def gpus_here(self) -> int:
        """How many GPUs this machine has, if any cell needs one."""
        return len(visible_gpus()) if any(map(gpus_of, self.cells.values())) else 0

    def records(self, *names: str, suite: str | None = None) -> list[str]:
        """The files with these names of every record, or of every record of one suite."""
        paths = [path for path, cell in self.cells.items() if suite in (None, cell.suite)]
        return [f"results/runs/{path}/{name}" for path in paths for name in names]

    def option_of(self, suite: str, subset: Subset) -> list[str]:
        """The option of commands for the part of a subset that is in one suite."""
        return subset.within(self.cells_of(suite)).option()

    def trained_by(self, jobs: Iterable[Any]) -> list[Cell]:
        """The cells whose records these jobs of Snakemake make."""
        outputs = {str(path) for job in jobs for path in job.output}
        return [c for path, c in self.cells.items() if f"results/runs/{path}/{record.RUN}" in outputs]

    def of_preparation(self, what: Callable[[Cell], T]) -> OfWildcards[T]:
        """`what` of the cell that the job's preparation is made for, by its `suite` and `preparation`."""
        return lambda wildcards: what(self.preparations[f"{wildcards.suite}/{wildcards.preparation}"])

    def of_block(self, suite: str, what: Callable[[list[Cell]], T]) -> OfWildcards[T]:
        """`what` of the cells of a job's block, by its wildcards `dataset`, `model`, `size` and `seed`."""

        def of_wildcards(wildcards: Any) -> T:
            path = (suite, wildcards.dataset, wildcards.model, wildcards.size, wildcards.seed)
            return what(self.blocks["/".join(path)])

        return of_wildcards

    def of_first(self, suite: str, what: Callable[[Cell], T]) -> OfWildcards[T]:
        """`what` of one cell of a job's block: they are alike but for their method."""
        return self.of_block(suite, lambda block: what(block[0]))

    def of_dataset(self, what: Callable[[Module], T]) -> OfWildcards[T]:
        """`what` of the data set of a job, by its wildcard `dataset`."""
        return lambda wildcards: what(self.datasets[wildcards.dataset])


def read(suites: Sequence[str], with_options: bool, subset: Subset = WHOLE) -> Grid:
    """The grid of these suites, or a subset of it.

    Args:
        with_options: are options held against the plug-ins too, which are imported for that?
        subset: the cells that are wanted.

    Raises:
        UserError: a suite is not valid, two of them contradict each other, or they do not have the subset.
    """
    every = [cell for suite in suites for cell in cells(suite)]
    wanted = subset.keep(every)
    if with_options:
        check_options(suites, every)
    cut = {cell.suite for cell in every if not subset.has(cell)}
    return Grid(wanted, {cell.suite for cell in wanted} - cut)


def _datasets(every: Sequence[Cell]) -> dict[str, Module]:
    """The data sets by label."""
    found = {cell.dataset: cell.data for cell in every}
    for cell in every:
        if cell.data != found[cell.dataset]:
            raise UserError(
                f"two suites mean different things by the data set {cell.dataset}: give one another label"
            )
    if alike := clash(found):
        raise UserError(f"the data sets {alike}")
    return found


def _unique(names: Sequence[str]) -> list[str]:
    """Each once, in the order of their first."""
    return list(dict.fromkeys(names))
