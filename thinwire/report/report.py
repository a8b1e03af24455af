"""Tables and figures of one suite, made from the collected files only."""

from pathlib import Path

from thinwire.config.baselines import baselines
from thinwire.config.expand_suite import cells
from thinwire.config.suite import load
from thinwire.report import figures, tables
from thinwire.report.collect import read_curves, read_summary
from thinwire.report.subset_note import subset_note


def report(suite: str, results: Path) -> None:
    """Write `results/tables/SUITE/` and `results/figures/SUITE/`."""
    settings = load(suite)
    runs = read_summary(results, suite)
    curves = read_curves(results, suite)
    table = tables.summarise(runs, settings.baseline)
    subset = subset_note(runs, cells(suite), settings.baseline)
    tables.write(table, tables.About.of(settings, subset), results / "tables" / suite)
    figures.write(curves, results / "figures" / suite, baselines(settings))
