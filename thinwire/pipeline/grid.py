"""What a person chose with `snakemake --config`, every cell of that, and what several cells share.

Methods of `Grid` that begin with `of_` are for rules: each turns a function of a cell into one of a job's
wildcards.
"""

import shlex
import subprocess
import sys
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from thinwire.base import digests, folders
from thinwire.base.errors import UserError
from thinwire.base.files import writing
from thinwire.base.names import clash, flat
from thinwire.base.nvidia_smi import visible_gpus
from thinwire.base.options import problems
from thinwire.config import grid_subset
from thinwire.config.cell import Cell
from thinwire.config.configuration import Configuration
from thinwire.config.expand import blocks, cells, require_valid
from thinwire.config.grid_subset import WHOLE, Subset
from thinwire.config.sources import prepares
from thinwire.config.suite import stage_names
from thinwire.config.trials import PREFIX, Stage, is_finals
from thinwire.config.yaml_file import Module
from thinwire.launch.gpu_claims import gpus_of
from thinwire.pipeline import inputs
from thinwire.plugins import ROOT
from thinwire.publish.wandb.fields import project
from thinwire.records import record

# Has an empty file for each state of suites and plug-ins that was found valid, beside Snakemake's own notes.
_VALID = Path(".snakemake/thinwire_valid")


T = TypeVar("T")
OfWildcards = Callable[[Any], T]


@dataclass(frozen=True)
class Chosen:
    suites: list[str]
    data: Path | None = None  # has a folder for each data set whose files cannot be downloaded
    subset: Subset = WHOLE

    @property
    def tuned(self) -> list[str]:
        """The suites that are tuned, if tunings were chosen."""
        return _unique([Stage.named(name).of for name in self.suites if name.startswith(PREFIX)])

    def place_of(self, dataset: Module) -> str:
        """The option of `thinwire data` for the folder of this data set; empty where there is no such folder.

        The folder has the label of the data set, or the name of its module.
        """
        names = (dataset.label, dataset.use) if self.data else ()
        for folder in (Path(self.data or "") / name for name in names):
            if folder.is_dir():
                return f"--from {shlex.quote(str(folder))}"
        return ""


def chosen(config: Mapping[str, Any], in_file: Container[str] = ()) -> Chosen:
    """Read what was given; without `suites` the demo is chosen.

    Args:
        config: values by key, as `Configuration` has them.
        in_file: the keys whose values are from `config/config.yaml`, and not from the command line.

    Raises:
        UserError: a key is unknown, a value is not valid, or the folder does not exist.
    """

    def where(key: str) -> str:
        return f"{folders.SNAKEMAKE}:" if key in in_file else "--config"

    if empty := [key for key, value in config.items() if value is None and key not in in_file]:
        raise UserError(f"--config {empty[0]}=: it is empty; give it a value, or leave it out")
    try:
        given = Configuration.model_validate(config).given
    except ValidationError as error:
        first = error.errors()[0]["loc"]
        problem = problems(error, [*Configuration.model_fields])[0]
        raise UserError(f"{where(str(first[0]) if first else 'tune')} {problem}") from None
    suites = _names(given.get("suites", "demo"))
    if wrong := [name for name in suites if name.startswith(PREFIX)]:
        better = wrong[0].removeprefix(PREFIX)
        raise UserError(f"{where('suites')} suites={wrong[0]}: give tune={better} instead")
    if "tune" in given:
        suites = [f"{PREFIX}{name}" for name in _names(given["tune"])]
    data = Path(str(given["data"])) if "data" in given else None
    if data is not None and not data.is_dir():
        raise UserError(f"{where('data')} data={data}: there is no such folder")
    return Chosen(suites, data, grid_subset.of(given))


def _names(listed: object) -> list[str]:
    return _unique([name.strip() for name in str(listed).split(",")])


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
        self.suites = _unique([cell.suite for cell in self.cells.values()])
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
        return _unique([cell.method.label for cell in self.cells_of(suite)])

    def cells_of(self, suite: str) -> list[Cell]:
        return [cell for cell in self._every if cell.suite == suite]

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

    def trained(self, planned: Container[str]) -> list[Cell]:
        """The cells whose records are among the planned files."""
        return [c for path, c in self.cells.items() if f"results/runs/{path}/{record.RUN}" in planned]

    def of_preparation(self, what: Callable[[Cell], T]) -> OfWildcards[T]:
        """`what` of the cell that the job's preparation is made for, by its `suite` and `preparation`."""
        return lambda wildcards: what(self.preparations[f"{wildcards.suite}/{wildcards.preparation}"])

    def of_block(self, suite: str, what: Callable[[list[Cell]], T]) -> OfWildcards[T]:
        """`what` of the cells of a job's block, by its wildcards `dataset`, `model`, `size` and `seed`."""

        def of_wildcards(wildcards: Any) -> T:
            path = (suite, wildcards.dataset, wildcards.model, wildcards.size, wildcards.seed)
            return what(self.blocks["/".join(path)])

        return of_wildcards

    def datasets_of_files(self, chosen: Chosen, there: bool) -> list[str]:
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


def _unique(names: Sequence[str]) -> list[str]:
    """Each once, in the order of their first."""
    return list(dict.fromkeys(names))


def require_valid_options(suites: Sequence[str], every: Sequence[Cell]) -> None:
    """Check the options of suites against their plug-ins, once for each state of both.

    This imports the plug-ins, and with them torch. It takes seconds and memory, so a process of its own does
    it.

    Args:
        suites: their names.
        every: their cells.

    Raises:
        UserError: an option is not valid.
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


def _check() -> None:
    try:
        for suite in sys.argv[1:]:
            require_valid(suite)
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    _check()
