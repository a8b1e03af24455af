"""What the pipeline makes from records: tables, figures and W&B runs of suites, or the choices of tunings."""

from thinwire.pipeline.command_line_choices import Chosen
from thinwire.pipeline.job_grid import Grid
from thinwire.report.collect import CURVES, SUMMARY
from thinwire.tracking.replay import NOTE

FIGURES = ("accuracy_over_epochs", "accuracy_against_bytes")


def made_from_records(chosen: Chosen, grid: Grid) -> list[str]:
    """All that is made of the suites or tunings that a person chose."""
    if chosen.tuned:
        return [*choices(*chosen.tuned), *best_so_far(*chosen.tuned)]
    collected = [f"results/{name}" for name in (SUMMARY, CURVES)]
    notes = [f"results/wandb/{project}/{NOTE}" for project in grid.projects]
    return [*collected, *tables(*chosen.suites), *figures(*chosen.suites), *notes]


def tables(*suites: str) -> list[str]:
    """The paths of the tables of these suites."""
    return [f"results/tables/{suite}/summary.{end}" for suite in suites for end in ("csv", "md")]


def figures(*suites: str) -> list[str]:
    """The paths of the figures of these suites."""
    names = [f"{name}.{end}" for name in FIGURES for end in ("pdf", "png")]
    return [f"results/figures/{suite}/{name}" for suite in suites for name in names]


def choices(*suites: str) -> list[str]:
    """The paths of what tunings have chosen for these suites, with the record of their trials."""
    return [f"config/tuned/{suite}.{end}" for suite in suites for end in ("yaml", "csv")]


def best_so_far(*suites: str) -> list[str]:
    """The paths of the figures of the tunings of these suites."""
    return [f"results/figures/tuning/{suite}/best_so_far.{end}" for suite in suites for end in ("pdf", "png")]
