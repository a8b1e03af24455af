"""Every cell of the suites that were chosen, and what rules need to know of several cells.

Methods of `Grid` that begin with `of_` turn a function of a cell into one of a job's wildcards.

Which of a tuning's trials run again, as *finals*, is known when all trials have ended. So the job of a block
of finals promises no records, but an empty file that says that it has ended, and the checkpoint `finalists`
comes before it.
"""

import subprocess
import sys
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from thinwire.base import digests, folders
from thinwire.base.errors import UserError
from thinwire.base.files import writing
from thinwire.base.folders import clash, flat
from thinwire.base.nvidia_smi import visible_gpus
from thinwire.config.cell import Cell, prepares
from thinwire.config.expand import blocks, cells, require_valid
from thinwire.config.grid_subset import WHOLE, Subset
from thinwire.config.suite import stage_names
from thinwire.config.trials import Stage, finalists_path, is_finals, only_finalists
from thinwire.config.yaml_file import Module
from thinwire.launch.placement import gpus_of
from thinwire.pipeline import inputs
from thinwire.plugins import ROOT
from thinwire.publish.wandb.fields import project
from thinwire.records import record

if TYPE_CHECKING:
    from snakemake.io import Wildcards

    from thinwire.pipeline.snakefile import Chosen

# Has an empty file for each state of suites and plug-ins that was found valid, beside Snakemake's own notes.
_VALID = Path(".snakemake/thinwire_valid")
_RESULTS = Path("results")

T = TypeVar("T")
OfWildcards = Callable[["Wildcards"], T]


@dataclass(frozen=True)
class Shape:
    """Cells whose jobs ask for the same nodes, GPUs and memory, and share a rule for that reason.

    In job arrays, Snakemake's plug-in for Slurm gives all jobs of a rule the resources of the first one.
    """

    suite: str
    dataset: str
    size: str  # none of preparations
    cells: list[Cell]

    @property
    def name(self) -> str:
        """A name for a rule, unique among shapes of one kind."""
        return flat("/".join(filter(None, [self.suite, self.dataset, self.size])))

    @property
    def finalists(self) -> list[str]:
        """Of finals the file with the best trials, of which they are runs."""
        return [str(finalists_path(_RESULTS, Stage.named(self.suite).of))] if is_finals(self.suite) else []


class Grid:
    def __init__(self, every: Sequence[Cell], whole: Container[str] = ()) -> None:
        """Lay out these cells.

        Args:
            every: cells of one suite or of several.
            whole: the suites of which no cell is missing.

        Raises:
            UserError: two suites mean different data sets by one label, or by two that differ in case only.
        """
        self._every = every
        # Which cells finals will have is known when the trials have ended.
        self.cells = {f"{cell.suite}/{cell.path}": cell for cell in every if not is_finals(cell.suite)}
        # The cell that each preparation is made for. With a subset it need not be in the grid itself.
        self.preparations = {f"{cell.suite}/{cell.preparation}": cell.preparing for cell in every}
        self.blocks = blocks(every)
        self.datasets = _datasets([*every, *self.preparations.values()])
        # Suites by the name that they have in W&B.
        self.projects = {project(cell.suite): cell.suite for cell in every}
        self.suites = list(dict.fromkeys(cell.suite for cell in self.cells.values()))
        self.whole = whole

    @property
    def shapes(self) -> list[Shape]:
        """The blocks by suite, data set and number of workers and nodes."""
        return _shapes(self._every, lambda cell: cell.size_label)

    @property
    def shapes_of_preparations(self) -> list[Shape]:
        """What methods prepare, by suite and data set: one process has all workers."""
        prepared = [cell for cell in self.preparations.values() if prepares(cell.method.use)]
        return _shapes(prepared, lambda cell: "")

    def methods_of(self, suite: str) -> list[str]:
        return list(dict.fromkeys(cell.method.label for cell in self.cells_of(suite)))

    def cells_of(self, suite: str) -> list[Cell]:
        return [cell for cell in self._every if cell.suite == suite]

    def gpus_here(self) -> int:
        """How many GPUs this machine has, if any cell needs one."""
        return len(visible_gpus()) if any(map(gpus_of, self.cells.values())) else 0

    def records(self, *names: str, suite: str | None = None) -> list[str]:
        """The files with these names of every record, or of every record of one suite."""
        paths = [path for path, cell in self.cells.items() if suite in (None, cell.suite)]
        return [f"results/runs/{path}/{name}" for path in paths for name in names]

    def records_of_trials(self, tuned: str) -> list[str]:
        """The records of the first runs of all trials of a tuning."""
        own = [suite for suite in self.suites if Stage.named(suite).of == tuned]
        return [path for suite in own for path in self.records(record.RUN, suite=suite)]

    def ends_of_finals(self, tuned: str) -> list[str]:
        """The files that say that the finals of a tuning have ended, one for each block."""
        of = {path: block[0].suite for path, block in self.blocks.items() if is_finals(block[0].suite)}
        return [_end(path) for path, suite in of.items() if Stage.named(suite).of == tuned]

    def made_by(self, shape: Shape) -> list[str]:
        """The outputs of the rule of a shape: the records of a block, or of finals the file at their end."""
        place = f"{shape.suite}/{{dataset}}/{{model}}"
        if shape.finalists:
            return [_end(f"{place}/{{size}}/{{seed}}")]
        methods, files = self.methods_of(shape.suite), (record.RUN, record.CURVE, record.TRAFFIC)
        return [f"results/runs/{place}/{method}/{{size}}/{{seed}}/{f}" for method in methods for f in files]

    def option_of(self, suite: str, subset: Subset) -> list[str]:
        """The option of commands for the part of a subset that is in one suite."""
        return subset.within(self.cells_of(suite)).option()

    def trained(self, planned: Container[str]) -> list[Cell]:
        """The cells whose records are among the planned files."""
        return [c for path, c in self.cells.items() if f"results/runs/{path}/{record.RUN}" in planned]

    def trained_of_finals(self, planned: Container[str]) -> list[Cell]:
        """The cells of finals, of all trials, in the blocks whose ends are among the planned files."""
        return [cell for path, block in self.blocks.items() if _end(path) in planned for cell in block]

    def of_preparation(self, what: Callable[[Cell], T]) -> OfWildcards[T]:
        """`what` of the cell that the job's preparation is made for, by its `suite` and `preparation`."""
        return lambda wildcards: what(self.preparations[f"{wildcards.suite}/{wildcards.preparation}"])

    def of_block(self, suite: str, what: Callable[[list[Cell]], T]) -> OfWildcards[T]:
        """`what` of the cells of a job's block, by its wildcards `dataset`, `model`, `size` and `seed`."""

        def of_wildcards(wildcards: "Wildcards") -> T:
            path = (suite, wildcards.dataset, wildcards.model, wildcards.size, wildcards.seed)
            return what(self.blocks["/".join(path)])

        return of_wildcards

    def prepared_for(self, shape: Shape, after_trials: Callable[[str], object]) -> OfWildcards[list[str]]:
        """What methods have prepared for a job's block; of finals, for the best trials.

        `after_trials` lets Snakemake ask again when the trials of the tuning that it is given have ended.
        """

        def of_wildcards(wildcards: "Wildcards") -> list[str]:
            if shape.finalists:
                after_trials(Stage.named(shape.suite).of)
            block = self.of_block(shape.suite, lambda cells: only_finalists(cells, _RESULTS))(wildcards)
            return inputs.prepared_for_block(block)

        return of_wildcards

    def datasets_of_files(self, chosen: "Chosen", there: bool) -> list[str]:
        """The labels of the data sets whose files the user has, or of all others."""
        return [label for label, each in self.datasets.items() if bool(chosen.place_of(each)) == there]

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
    every = [cell for suite in suites for stage in stage_names(suite) for cell in cells(stage)]
    wanted = subset.keep(every)
    if with_options:
        require_valid_options(suites, every)
    cut = {cell.suite for cell in every if not subset.has(cell)}
    return Grid(wanted, {cell.suite for cell in wanted} - cut)


def _end(block: str) -> str:
    """The file that says that a block of finals has ended."""
    return f"results/finalists/{block}.done"


def _shapes(cells: Iterable[Cell], size_of: Callable[[Cell], str]) -> list[Shape]:
    """These cells by suite, data set and size."""
    found: dict[tuple[str, str, str], Shape] = {}
    for cell in cells:
        place = (cell.suite, cell.dataset, size_of(cell))
        found.setdefault(place, Shape(*place, [])).cells.append(cell)
    return list(found.values())


def _datasets(every: Sequence[Cell]) -> dict[str, Module]:
    found = {cell.dataset: cell.data for cell in every}
    for cell in every:
        if cell.data != found[cell.dataset]:
            raise UserError(
                f"two suites mean different things by the data set {cell.dataset}: give one another label"
            )
    if alike := clash(found):
        raise UserError(f"the data sets {alike}")
    return found


def require_valid_options(suites: Sequence[str], every: Sequence[Cell]) -> None:
    """Check the options of suites, with these cells, against their plug-ins, once for each state of both.

    This imports the plug-ins, and with them torch. It takes seconds and memory, so a process of its own does
    it. A `UserError` if an option is not valid.
    """
    valid = _VALID / _state(every)
    if valid.exists():
        return
    command = [sys.executable, "-m", __name__, *suites]
    answer = subprocess.run(
        command, cwd=ROOT, env=folders.environment(), capture_output=True, text=True, check=False
    )
    if answer.returncode:
        raise UserError(answer.stderr.strip())
    with writing(valid):
        valid.parent.mkdir(parents=True, exist_ok=True)
        valid.touch()


def _state(every: Sequence[Cell]) -> str:
    """The digest of all options that are used, and of the plug-ins that take them."""
    used = {
        (kind, module.use, digests.of_identity(module.options))
        for cell in every
        for kind, module in (("dataset", cell.data), ("model", cell.model), ("method", cell.method))
    }
    return digests.of_identity([(*entry, inputs.plugin_digest(entry[0], entry[1])) for entry in sorted(used)])


if __name__ == "__main__":
    try:
        for name in sys.argv[1:]:
            require_valid(name)
    except UserError as error:
        sys.exit(str(error))
