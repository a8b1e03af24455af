"""The tables and figures of suites."""

FIGURES = ("accuracy_over_epochs", "accuracy_against_bytes")


def tables(*suites: str) -> list[str]:
    """The paths of the tables of these suites."""
    return [f"results/tables/{suite}/summary.{end}" for suite in suites for end in ("csv", "md")]


def figures(*suites: str) -> list[str]:
    """The paths of the figures of these suites."""
    names = [f"{name}.{end}" for name in FIGURES for end in ("pdf", "png")]
    return [f"results/figures/{suite}/{name}" for suite in suites for name in names]
