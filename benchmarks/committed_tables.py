"""Tables of the committed results, and tables in Markdown, for the documentation."""

from collections.abc import Iterable, Sequence

import pandas as pd

from thinwire.base.folders import REFERENCE
from thinwire.config.entries import task_of
from thinwire.config.suite import load
from thinwire.plugins import ROOT
from thinwire.report.rows.collect import with_engine_names

FOLDER = ROOT / REFERENCE


def table(suite: str, name: str) -> pd.DataFrame:
    """A table of a suite in results/reference/, with the engine's names of columns."""
    made = pd.read_csv(FOLDER / "tables" / suite / f"{name}.csv")
    return with_engine_names(made, task_of(load(suite)))


def summary(suite: str) -> pd.DataFrame:
    """The summary of a suite, in which texts that are missing are empty."""
    frame = table(suite, "summary")
    texts = ["reason", "no_time_because"]
    return frame.assign(**frame[texts].astype("string").fillna("").to_dict("series"))


def markdown(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [heading, ["---"] * len(heading), *rows])
