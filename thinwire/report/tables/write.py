"""Writing the tables of a suite."""

from pathlib import Path

import pandas as pd

from thinwire.files import write_text
from thinwire.report import table_file
from thinwire.report.tables.about import About
from thinwire.report.tables.blocks import blocks
from thinwire.report.tables.latex import latex
from thinwire.report.tables.markdown import markdown
from thinwire.report.tables.notes import notes
from thinwire.report.tables.traffic import traffic
from thinwire.report.tables.typst import typst

_FORMATS = {"md": markdown, "tex": latex, "typ": typst}


def write(table: pd.DataFrame, about: About, folder: Path) -> None:
    """Write `summary.csv`, `summary.md`, `summary.tex`, `summary.typ` and `traffic.md`.

    Args:
        table: with the columns of `summarise`, `with_comparisons` and `with_times`.
        about: what to say about the suite.
        folder: of the suite's tables.
    """
    table_file.write(table, folder / "summary.csv")
    for end, text in summary(table, about).items():
        write_text(folder / f"summary.{end}", text)
    write_text(folder / "traffic.md", traffic(table, about))


def summary(table: pd.DataFrame, about: About) -> dict[str, str]:
    """The summary in each format, by the end of its file's name."""
    shown = blocks(table, about)
    below = notes(table, shown, about)
    return {end: form(about.title, about.subset, shown, below) for end, form in _FORMATS.items()}
