"""Tables and figures of one suite, made from the collected files only."""

from pathlib import Path

import pandas as pd

from thinwire.config.baselines import baselines
from thinwire.config.expand_suite import cells_as_it_ran
from thinwire.config.simulate_problems import numbers_of_workers
from thinwire.config.suite import load
from thinwire.config.suite_methods import as_it_ran
from thinwire.config.suite_schema import Suite
from thinwire.report import (
    comparisons,
    figures,
    ladder,
    ladder_figure,
    profiles,
    report_digests,
    simulated_figures,
    speed_ups,
    times,
    to_target,
)
from thinwire.report.collect import read_curves, read_summary, read_traffic
from thinwire.report.steps_to_target import steps_to_target
from thinwire.report.subset_note import subset_note
from thinwire.report.tables.about import About
from thinwire.report.tables.compared import with_comparisons
from thinwire.report.tables.summarise import summarise
from thinwire.report.tables.timed import with_times
from thinwire.report.tables.write import write as write_tables
from thinwire.simulation import simulated_file


def report(suite: str, results: Path) -> list[str]:
    """Write `results/tables/SUITE/` and `results/figures/SUITE/`; with times, if the suite was simulated.

    Returns:
        Sentences about figures that are not drawn.
    """
    now = load(suite)
    runs = read_summary(results, suite)
    ran = set(runs.method)
    settings = as_it_ran(now, ran)
    against = baselines(settings)
    folder = results / "tables" / suite
    curves = read_curves(results, suite)
    compared = comparisons.comparisons(runs, settings.baseline)
    needed = to_target.to_target(runs, curves, settings.baseline)
    simulated = simulated_file.read(results, suite)
    timed = times.times(simulated, runs, against, steps_to_target(curves, settings.baseline))
    table = with_times(with_comparisons(summarise(runs, against), compared), timed)
    subset = subset_note(runs, cells_as_it_ran(suite, ran), settings.baseline)
    write_tables(table, About.of(settings, subset), folder)
    comparisons.write(compared, folder)
    to_target.write(needed, folder)
    profiles.write(profiles.profiles(needed), folder)
    speed_ups.write(speed_ups.speed_ups(runs, against), folder)
    frames = figures.Frames(runs, curves, read_traffic(results, suite), compared, needed)
    not_drawn = figures.write(frames, results / "figures" / suite, against)
    if settings.ladder:
        climbed = ladder.ladder(timed, settings.ladder)
        ladder.write(climbed, settings.title, folder)
        ladder_figure.write(climbed, results / "figures" / suite)
    if simulated is not None:
        untimed = runs.no_time_because[runs.status == "done"].dropna().unique()
        times.write(timed, settings.title, against, folder, list(untimed))
        _draw_times(settings, timed, results / "figures" / suite)
    report_digests.write(results, suite)
    return not_drawn


def _draw_times(settings: Suite, table: pd.DataFrame, folder: Path) -> None:
    asked = settings.simulate
    simulated_figures.write(
        table,
        folder,
        baselines(settings),
        over_workers=asked is not None and len(numbers_of_workers(asked, settings)) > 1,
        over_rates=asked is not None and bool(asked.rates_gbit_per_second),
    )
