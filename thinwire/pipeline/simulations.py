"""What the simulation of a suite depends on."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from thinwire.base import digests
from thinwire.config.cell import Cell
from thinwire.config.clusters import CLUSTERS, HERE, PROFILES
from thinwire.config.suite import load
from thinwire.config.suite_problems import numbers_of_workers
from thinwire.config.suite_schema import Simulate
from thinwire.pipeline import inputs
from thinwire.pipeline.grid import Grid
from thinwire.plugins import ROOT


@dataclass(frozen=True)
class Simulation:
    """The simulation of one suite: its settings, and the cells of the first repetition."""

    settings: Simulate
    cells: list[Cell]
    workers: list[int]

    @property
    def over_workers(self) -> bool:
        """Are there several numbers of workers?"""
        return len(self.workers) > 1

    @property
    def data(self) -> list[str]:
        """The data sets, laid out."""
        return list(dict.fromkeys(map(inputs.manifest, self.cells)))

    @property
    def sources(self) -> list[str]:
        """The files of the methods and models."""
        return inputs.files_of_block(self.cells)

    @property
    def prepared(self) -> list[str]:
        """What the methods have prepared."""
        return inputs.prepared_for_block(self.cells)

    @property
    def described(self) -> list[Path]:
        """The files of the clusters and of the compute profiles."""
        clusters = [CLUSTERS / f"{name}.yaml" for name in self.settings.clusters]
        devices = [PROFILES / f"{name}.yaml" for name in self.settings.profiles if name != HERE]
        return [path.relative_to(ROOT) for path in (*clusters, *devices)]

    @property
    def fingerprint(self) -> str:
        """Changes when an option does, or the content of a file that it depends on."""
        return digests.of_identity(
            [
                self.settings.model_dump(),
                [cell.fingerprint for cell in self.cells],
                inputs.digest_of_block(self.cells),
                [digests.of_file(ROOT / path) for path in self.described],
            ]
        )


def simulations(grid: Grid) -> Mapping[str, Simulation]:
    """The simulations of the chosen suites that ask for one."""
    found = {}
    for name in grid.suites:
        suite = load(name)
        if suite.simulate is not None:
            own = [c for c in grid.cells.values() if c.suite == name and c.repetition == 0]
            found[name] = Simulation(suite.simulate, own, numbers_of_workers(suite.simulate, suite))
    return found
