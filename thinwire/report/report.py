"""Tables and figures of one suite, made from the collected files only."""

from pathlib import Path

import pandas as pd

from thinwire.config.baselines import baselines
from thinwire.config.expand_suite import cells
from thinwire.config.simulate_problems import numbers_of_workers
from thinwire.config.suite import load
from thinwire.report import comparisons, figures, simulated_figures, tables, times, to_target
from thinwire.report.collect import read_curves, read_summary
from thinwire.report.steps_to_target import steps_to_target
from thinwire.report.subset_note import subset_note
from thinwire.simulation import simulated_file


def report(suite: str, results: Path) -> None:
    """Write `results/tables/SUITE/` and `results/figures/SUITE/`; with times, if the suite was simulated."""
    settings = load(suite)
    runs = read_summary(results, suite)
    curves = read_curves(results, suite)
    table = tables.summarise(runs, settings.baseline)
    subset = subset_note(runs, cells(suite), settings.baseline)
    folder = results / "tables" / suite
    tables.write(table, tables.About.of(settings, subset), folder)
    comparisons.write(comparisons.comparisons(runs, settings.baseline), folder)
    to_target.write(to_target.to_target(runs, curves, settings.baseline), folder)
    figures.write(curves, results / "figures" / suite, baselines(settings))
    simulated = simulated_file.read(results, suite)
    if simulated is not None:
        _report_times(suite, results, simulated, runs, curves)


def _report_times(
    suite: str, results: Path, simulated: pd.DataFrame, runs: pd.DataFrame, curves: pd.DataFrame
) -> None:
    settings = load(suite)
    against = baselines(settings)
    to_target = steps_to_target(curves, settings.baseline)
    table = times.times(simulated, runs, against, to_target)
    untimed = runs.no_time_because[runs.status == "done"].dropna().unique()
    times.write(table, settings.title, against, results / "tables" / suite, list(untimed))
    asked = settings.simulate
    simulated_figures.write(
        table,
        results / "figures" / suite,
        against,
        over_workers=asked is not None and len(numbers_of_workers(asked, settings)) > 1,
        over_rates=asked is not None and bool(asked.rates_gbit_per_second),
    )
