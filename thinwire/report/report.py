"""Tables and figures of one suite, from the collected files only."""

from pathlib import Path

import pandas as pd

from thinwire.config.suite import load
from thinwire.report import figures, tables
from thinwire.report.collect import CURVES, SUMMARY


def report(suite: str, results: Path) -> None:
    """Write `results/tables/SUITE/` and `results/figures/SUITE/`."""
    settings = load(suite)
    runs = pd.read_csv(results / SUMMARY)
    curves = pd.read_parquet(results / CURVES)
    table = tables.summarise(runs[runs.suite == suite], settings.baseline)
    tables.write(table, settings.title, settings.evaluate_on, results / "tables" / suite)
    figures.write(curves[curves.suite == suite], results / "figures" / suite)
