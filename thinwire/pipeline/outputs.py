"""What the pipeline makes from records: tables, figures and W&B runs of suites, or the choices of tunings."""

from collections.abc import Mapping
from pathlib import Path

from thinwire.pipeline.command_line_choices import Chosen
from thinwire.pipeline.job_grid import Grid
from thinwire.pipeline.simulation_inputs import Simulation
from thinwire.report.collect import CURVES, SUMMARY
from thinwire.simulation import simulated_file
from thinwire.tracking.replay import NOTE

# Tables for programs only.
COMPARED = ("comparisons", "to_target")
FIGURES = ("accuracy_over_epochs", "accuracy_against_bytes")


def made_from_records(chosen: Chosen, grid: Grid, simulated: Mapping[str, Simulation]) -> list[str]:
    """All that is made of the suites or tunings that a person chose."""
    if chosen.tuned:
        return [*choices(*chosen.tuned), *best_so_far(*chosen.tuned)]
    collected = [f"results/{name}" for name in (SUMMARY, CURVES)]
    notes = [f"results/wandb/{project}/{NOTE}" for project in grid.projects]
    reports = [path for suite in chosen.suites for path in report(suite, simulated.get(suite))]
    return [*collected, *reports, *notes]


def report(suite: str, simulation: Simulation | None) -> list[str]:
    """The paths of the tables and figures of a suite."""
    tables = ["summary.csv", "summary.md", "summary.tex", "summary.typ", "traffic.md"]
    figures = [*FIGURES]
    if simulation is not None:
        tables += ["times.csv", "times.md"]
        figures += ["step_breakdown", "speed_up_simulated"]
        figures += ["speed_up_over_workers"] if simulation.over_workers else []
        figures += ["bandwidth"] if simulation.settings.rates_gbit_per_second else []
    return [
        *(f"results/tables/{suite}/{name}" for name in tables),
        *(f"results/tables/{suite}/{name}.csv" for name in COMPARED),
        *(f"results/figures/{suite}/{name}.{end}" for name in figures for end in ("pdf", "png")),
    ]


def times(suite: str) -> str:
    """The path of the simulated times of a suite."""
    return str(simulated_file.path_of(Path("results"), suite))


def choices(*suites: str) -> list[str]:
    """The paths of what tunings have chosen for these suites, with the record of their trials."""
    return [f"config/tuned/{suite}.{end}" for suite in suites for end in ("yaml", "csv")]


def best_so_far(*suites: str) -> list[str]:
    """The paths of the figures of the tunings of these suites."""
    return [f"results/figures/tuning/{suite}/best_so_far.{end}" for suite in suites for end in ("pdf", "png")]
