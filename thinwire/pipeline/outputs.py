"""The tables and figures of suites, and the choices of tunings."""

FIGURES = ("accuracy_over_epochs", "accuracy_against_bytes")


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
