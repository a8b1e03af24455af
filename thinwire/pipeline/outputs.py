"""What the pipeline makes from records: tables, figures, verdicts, a page, W&B runs, choices of tunings.

And what the simulation of a suite depends on, whose times are in these tables.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from thinwire.base import digests, folders
from thinwire.config import hardware, tuned, tuning_space, yaml_file
from thinwire.config.cell import Cell
from thinwire.config.entries import entries_of, task_of_dataset
from thinwire.config.suite import load, read
from thinwire.config.suite import path_of as suite_path
from thinwire.config.suite_problems import numbers_of_workers
from thinwire.config.suite_schema import Simulate
from thinwire.pipeline import inputs
from thinwire.pipeline.grid import Grid
from thinwire.pipeline.snakefile import Chosen
from thinwire.plugins import ROOT
from thinwire.publish.paper import declarations
from thinwire.publish.paper.declarations import JUDGED, SOURCES
from thinwire.publish.wandb.suite import NOTE
from thinwire.report.report_files import (
    CLAIMS,
    CLAIMS_DIGESTS,
    CLAIMS_TEXT,
    CURVES,
    DIGESTS,
    FORMATS,
    HSGD_RATIO,
    PAPER,
    SCORES,
    SUMMARY,
    TRAFFIC,
    of_runs,
)
from thinwire.simulation import ladder_ratio, simulated_file

# The paper is about this suite, and uses the results of others that are there.
PAPER_SUITE = "demo"
# Tables for programs only.
COMPARED = ("comparisons", "to_target", "speed_ups", "profiles")
# All suites that have results, on one page.
PAGE = "results/index.html"
_CAPTIONS = ROOT / "workflow" / "report"
# Of the formats in which a figure or a table is written, those that a report can show.
_CATEGORIES = {".png": "Figures", ".csv": "Tables", ".html": "Page"}


@dataclass(frozen=True)
class Simulation:
    """The simulation of one suite: its settings, and the cells of the first repetition."""

    settings: Simulate
    cells: list[Cell]
    workers: list[int]
    of_track: bool = False

    @property
    def data(self) -> list[str]:
        return list(dict.fromkeys(inputs.laid_out(cell.dataset) for cell in self.cells))

    @property
    def sources(self) -> list[str]:
        return inputs.files_of_block(self.cells)

    @property
    def prepared(self) -> list[str]:
        return inputs.prepared_for_block(self.cells)

    @property
    def described(self) -> list[str]:
        named = [yaml_file.named(hardware.CLUSTERS, name, "cluster") for name in self.settings.clusters]
        if (device := self.settings.accelerator) is not None:
            named.append(yaml_file.named(hardware.ACCELERATORS, device, "accelerator"))
        return [inputs.path_in_rules(path) for path in named]

    @property
    def fingerprint(self) -> str:
        """Changes when an option does, or the content of a file that it depends on."""
        return digests.of_identity(
            [
                self.settings.model_dump(),
                [cell.fingerprint for cell in self.cells],
                inputs.digest_of_block(self.cells),
                [digests.of_file(Path(path)) for path in self.described],
            ]
        )


def simulations(grid: Grid) -> Mapping[str, Simulation]:
    """The simulations of the chosen suites that ask for one."""
    found = {}
    for name in grid.suites:
        suite = load(name)
        if suite.simulate is not None:
            own = [c for c in grid.cells.values() if c.suite == name and c.repetition == 0]
            workers = numbers_of_workers(suite.simulate, suite)
            found[name] = Simulation(suite.simulate, own, workers, suite.track is not None)
    return found


def made_from_records(chosen: Chosen, grid: Grid, simulated: Mapping[str, Simulation]) -> list[str]:
    """All that is made of the suites or tunings that a person chose."""
    if chosen.tuned:
        return [*choices(*chosen.tuned), *best_so_far(*chosen.tuned)]
    notes = [f"results/wandb/{project}/{NOTE}" for project in grid.projects]
    return [*tables_and_figures(chosen, grid, simulated), PAGE, *paper(grid), *notes]


def shown_on_page(chosen: Chosen, grid: Grid, simulated: Mapping[str, Simulation]) -> list[str]:
    """The tables that the page shows. It also reads the records from which they are made."""
    made = tables_and_figures(chosen, grid, simulated)
    return [path for path in made if path.endswith((".csv", ".parquet"))]


def tables_and_figures(chosen: Chosen, grid: Grid, simulated: Mapping[str, Simulation]) -> list[str]:
    """The collected files, the tables and figures of each suite, and the verdicts."""
    collected = [f"results/{name}" for name in (SUMMARY, CURVES, TRAFFIC)]
    reports = [
        path for suite in chosen.suites for path in report(suite, grid.cells_of(suite), simulated.get(suite))
    ]
    return [*collected, *reports, *claims()]


def paper(grid: Grid) -> list[str]:
    """The path of the paper, which needs all cells of the demo."""
    return [f"results/{PAPER}"] if PAPER_SUITE in grid.whole else []


def paper_sources() -> list[str]:
    """The files of the paper, and those of the methods whose parts it explains."""
    explained = [path for method in JUDGED for path in inputs.plugin_files("method", method)]
    return [*sorted(str(path) for path in SOURCES.rglob("*") if path.is_file()), *explained]


def quoted_by_paper() -> list[str]:
    """The files whose values and figures the paper shows, of those that are there, whoever made them."""
    if not SOURCES.is_dir():  # nor is there a paper
        return []
    declared = declarations.read()
    every = (*declared.files.values(), *declared.figures.values())
    files = dict.fromkeys(file.on_disk(Path("results")) for file in every)
    return [inputs.path_in_rules(path) for path in files if path.exists()]


def hsgd_ratio() -> list[str]:
    """The paths of the ratio between the ends of HSGD's ladder, which the paper quotes."""
    return [f"results/tables/{HSGD_RATIO}.csv", *(f"results/figures/{HSGD_RATIO}.{end}" for end in FORMATS)]


def hsgd_ratio_sources() -> list[str]:
    """The files that this ratio follows from, beside the engine."""
    described = (
        *map(suite_path, (ladder_ratio.LADDER, ladder_ratio.NETWORK)),
        hardware.CLUSTERS / f"{ladder_ratio.RATIO_CLUSTER}.yaml",
        hardware.ACCELERATORS / f"{ladder_ratio.RATIO_DEVICE}.yaml",
    )
    plugins_of_ends = inputs.files_of_block(ladder_ratio.cells_of_ends())
    return [*map(inputs.path_in_rules, described), *plugins_of_ends]


def claims() -> list[str]:
    """The paths of the table of claims, which is about all suites, and of its digests."""
    return [f"results/{name}" for name in (CLAIMS, CLAIMS_TEXT, CLAIMS_DIGESTS)]


def settings_of_report(suite: str) -> str:
    """Changes when the suite does, except its claims, whose table is made of them."""
    return digests.of_identity(load(suite).model_dump(mode="json", exclude={"claim"}))


def settings_of_tuning(tuned: str) -> str:
    """Changes when what is chosen from may, or how: an entry of the suite, its recipe, or the tuning."""
    suite = read(suite_path(tuned))
    settings = suite.model_dump(mode="json", include={"methods", "baseline", "leave_out", "recipe"})
    return digests.of_identity([settings, [*entries_of(suite)], tuning_space.read(tuned).digest])


def submitted(simulation: Simulation | None) -> list[str]:
    """The files of submissions, which the scores of a track show beside its own methods."""
    if simulation is None or not simulation.of_track:
        return []
    homes = [home / folders.SUBMISSIONS for home in folders.every()]
    files = sorted(path for home in homes for path in home.rglob("*") if path.is_file())
    return [inputs.path_in_rules(path) for path in files]


def report(suite: str, cells: Sequence[Cell], simulation: Simulation | None) -> list[str]:
    """The paths of the tables and figures of a suite, of which these cells were chosen."""
    places = {(cell.dataset, cell.model.label, cell.workers, cell.nodes) for cell in cells}
    tables = ["summary.csv", "summary.md", "summary.tex", "summary.typ", "traffic.md"]
    seeds = {cell.repetition for cell in cells}
    figures = of_runs(
        task_of_dataset(cells[0].data.use), len(places), any(cell.has_ranks for cell in cells), len(seeds)
    )
    if simulation is not None:
        tables += ["times.csv", "times.md"]
        figures += ["step_breakdown", "speed_up_simulated"]
        figures += ["speed_up_over_workers"] if len(simulation.workers) > 1 else []
        figures += ["bandwidth"] if simulation.settings.rates_gbit_per_second else []
        tables += [f"{SCORES}.csv", f"{SCORES}.md"] if simulation.of_track else []
    if load(suite).ladder:
        tables += ["ladder.csv", "ladder.md"]
        figures += ["ladder"]
    return [
        *(f"results/tables/{suite}/{name}" for name in tables),
        *(f"results/tables/{suite}/{name}.csv" for name in COMPARED),
        *(f"results/figures/{suite}/{name}.{end}" for name in figures for end in FORMATS),
        f"results/tables/{suite}/{DIGESTS}",
    ]


def times(suite: str) -> str:
    """The path of the simulated times of a suite."""
    return str(simulated_file.path_of(Path("results"), suite))


def times_without_data() -> list[str]:
    """The files of times of all suites that a person has simulated without data."""
    return [str(path) for path in simulated_file.paths_of_times(Path("results"))]


def choices(*suites: str) -> list[str]:
    """The paths of what tunings have chosen for these suites, with the record of their trials."""
    files = [path for suite in suites for path in (tuned.path_of(suite), tuned.trials_path(suite))]
    return [inputs.path_in_rules(path) for path in files]


def best_so_far(*suites: str) -> list[str]:
    """The paths of the figures of the tunings of these suites."""
    return [f"results/figures/tuning/{suite}/best_so_far.{end}" for suite in suites for end in FORMATS]


def entries(report: Callable[..., str], paths: Iterable[str]) -> list[str]:
    """The same paths; those that `snakemake --report` shows have their captions and categories.

    `report` is the function of this name that Snakemake has in its rules.
    """
    return [_entry(report, path) for path in paths]


def _entry(report: Callable[..., str], path: str) -> str:
    place = PurePath(path)
    category = _CATEGORIES.get(place.suffix)
    if category is None:
        return path
    own = _CAPTIONS / f"{place.stem}.rst"
    # results/figures/SUITE/NAME.png, where the name of a suite may have slashes
    suite = "/".join(place.parts[2:-1]) or "all suites"
    return report(
        path,
        caption=str(own if own.exists() else _CAPTIONS / f"{category.lower()}.rst"),
        category=category,
        subcategory=suite,
        labels={"name": place.stem.replace("_", " ")},
    )
