"""Tables of the committed results, and tables in Markdown, for the documentation."""

from collections.abc import Iterable, Sequence

import pandas as pd

from thinwire.base.names import REFERENCE
from thinwire.plugins import ROOT

FOLDER = ROOT / REFERENCE


def table(suite: str, name: str) -> pd.DataFrame:
    """A table of a suite in results/reference/, as the report made it."""
    return pd.read_csv(FOLDER / "tables" / suite / f"{name}.csv")


def summary(suite: str) -> pd.DataFrame:
    """The summary of a suite, in which texts that are missing are empty."""
    frame = table(suite, "summary")
    texts = ["reason", "no_time_because"]
    return frame.assign(**frame[texts].astype("string").fillna("").to_dict("series"))


def markdown(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [heading, ["---"] * len(heading), *rows])
