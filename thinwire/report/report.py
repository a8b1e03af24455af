"""Tables and figures of a suite."""

import math
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from thinwire.base.learning import LearningTask
from thinwire.config.entries import as_it_ran, baselines, entries_of, heirs, tuned_again
from thinwire.config.expand import cells_as_it_ran
from thinwire.config.suite import load
from thinwire.config.suite_problems import numbers_of_workers
from thinwire.report import report_files, track_scores
from thinwire.report import verdict_words as words
from thinwire.report.figures import scores, speed_ups, steps, style
from thinwire.report.figures.comparisons import write_paired_differences, write_trade_off
from thinwire.report.figures.style import heading
from thinwire.report.figures.traffic import write_performance_profile, write_traffic
from thinwire.report.rows import comparisons, times, to_target
from thinwire.report.rows.collect import read_curves, read_summary, read_traffic, task_of_runs
from thinwire.report.rows.comparisons import with_comparisons
from thinwire.report.rows.quantities import BLOCK, SETTING, summarise, untrained
from thinwire.report.rows.times import headline, with_times
from thinwire.report.tables.about import About, subset_note
from thinwire.report.tables.write import write as write_tables
from thinwire.simulation import simulated_file


class Frames(NamedTuple):
    """What the figures show."""

    runs: pd.DataFrame  # a row for each run
    curves: pd.DataFrame  # a row for each evaluation
    traffic: pd.DataFrame  # a row for each run, channel, verb and kind of payload
    comparisons: pd.DataFrame  # a row for each setting, method and kind
    to_target: pd.DataFrame  # a row for each setting, method, kind and target
    summary: pd.DataFrame  # a row for each setting, method and kind, with its comparison
    task: LearningTask
    untrained: Collection[tuple[object, ...]] = ()  # blocks in which the baseline is at chance level


def write_figures(frames: Frames, folder: Path, baselines: Sequence[str] = ()) -> list[str]:
    """Write the figures, and return sentences that say which one is not drawn, and why.

    `baselines` are labels of methods that are drawn thick and black, or named in bold.
    """
    style.use()
    task = frames.task
    drawn: dict[str, tuple[Callable[..., None], pd.DataFrame]] = {
        **{
            report_files.of_scores(task, axis.name): (partial(scores.write, axis, task), frames.curves)
            for axis in (scores.EPOCHS, scores.BYTES, scores.TIME)
        },
        report_files.TRAFFIC_FIGURE: (write_traffic, frames.traffic),
        report_files.PAIRED_DIFFERENCES: (partial(write_paired_differences, task), frames.comparisons),
        report_files.TRADE_OFF: (partial(write_trade_off, task), frames.summary),
        report_files.PROFILE: (partial(write_performance_profile, task), frames.to_target),
    }
    settings = len(frames.runs[SETTING].drop_duplicates())
    timed = bool((frames.runs.kind != "inprocess").any())
    repetitions = frames.runs.repetition.nunique()
    names = report_files.of_runs(task, settings, timed, repetitions)
    for name in names:
        draw, frame = drawn[name]
        own = frame if name == report_files.TRAFFIC_FIGURE else _trained(frame, frames.untrained)
        if own.empty and not frame.empty:
            style.say(f"There is no {task.score} to show: {_AT_CHANCE}.", folder / name)
        else:
            draw(own, folder, baselines)
    # They may be there, from a report on more runs.
    report_files.remove_figures(folder, drawn.keys() - set(names))
    if repetitions < report_files.FEWEST_REPETITIONS:
        return [f"Figures of {task.score} are not drawn: with one repetition, they would show no comparison."]
    return [*_at_chance(frames), *_not_drawn(names, settings, task)]


_AT_CHANCE = "the runs of the baseline are at chance level"


def _trained(frame: pd.DataFrame, untrained: Collection[tuple[object, ...]]) -> pd.DataFrame:
    """The rows outside of these blocks."""
    if frame.empty or not untrained:
        return frame
    return frame[[block not in untrained for block in frame[BLOCK].itertuples(index=False, name=None)]]


def _at_chance(frames: Frames) -> list[str]:
    """Sentences about what is not drawn because the baseline is at chance level."""
    return [
        f"Figures of {frames.task.score} do not show {heading(here)}: {_AT_CHANCE}."
        for block, here in frames.runs.groupby(BLOCK, sort=False)
        if block in frames.untrained
    ]


def _not_drawn(names: Sequence[str], settings: int, task: LearningTask) -> list[str]:
    sentences = []
    if (over_time := report_files.of_scores(task, report_files.OVER_TIME)) not in names:
        sentences.append(f"{over_time} is not drawn: runs in one process have no times.")
    if report_files.PROFILE not in names:
        needed = f"it needs {report_files.FEWEST_SETTINGS} combinations of data set, model and workers"
        sentences.append(f"{report_files.PROFILE} is not drawn: {needed}, and there are {settings}.")
    return sentences


def write_simulated_figures(
    table: pd.DataFrame,
    folder: Path,
    baselines: Sequence[str],
    over_workers: bool = False,
    over_rates: bool = False,
) -> None:
    """Write the figures of a table of times.

    Args:
        table: of times.
        folder: for the figures.
        baselines: labels of methods that are drawn thick, or named in bold.
        over_workers: draw the times over workers, even if there is only one number of them?
        over_rates: draw them over the rates of links, even if each cluster has only its own?
    """
    style.use()
    table = table.replace([math.inf, -math.inf], math.nan)
    first = headline(table)
    steps.write_breakdown(first[first.kind == "simulated"], folder, baselines)
    speed_ups.write_speed_up(first, folder, baselines)
    simulated = table[table.kind == "simulated"]
    if over_workers or simulated.workers.nunique() > 1:
        speed_ups.write_speed_up_over_workers(simulated[simulated.own_rate], folder, baselines)
    if over_rates or not simulated.own_rate.all():
        speed_ups.write_bandwidth(simulated[simulated.workers.isin(first.workers)], folder, baselines)


def report(suite: str, results: Path) -> list[str]:
    """Write `results/tables/SUITE/` and `results/figures/SUITE/`; with times, if the suite was simulated.

    Returns:
        Sentences about figures that are not drawn.
    """
    now = load(suite)
    runs = read_summary(results, suite)
    ran, task = set(runs.method), task_of_runs(runs)
    settings = as_it_ran(now, ran)
    against = baselines(settings)
    folder = results / "tables" / suite
    curves = read_curves(results, suite, task)
    again = tuned_again(settings)
    floor = comparisons.noise_floor(runs, settings.baseline, again, task)
    same = [label for label, of in heirs(entries_of(settings)).items() if of == settings.baseline]
    compared = comparisons.comparisons(runs, settings.baseline, task, floor, same)
    needed = to_target.to_target(runs, curves, settings.baseline, task)
    simulated = simulated_file.read(results, suite)
    timed = times.times(simulated, runs, against, to_target.steps_to_target(needed))
    table = with_times(with_comparisons(summarise(runs, against, task), compared), timed)
    subset = subset_note(runs, cells_as_it_ran(suite, ran), settings.baseline)
    noise = words.on_noise(floor, task.unit, settings.baseline, again)
    write_tables(table, About.of(settings, subset)._replace(noise=noise), folder)
    for name, made in (("comparisons", compared), ("to_target", needed)):
        report_files.write_table(made, folder / f"{name}.csv", task)
    report_files.write_table(to_target.profiles(needed), folder / "profiles.csv")
    report_files.write_table(comparisons.speed_ups(runs, against), folder / "speed_ups.csv")
    frames = Frames(runs, curves, read_traffic(results, suite), compared, needed, table, task)
    frames = frames._replace(untrained=untrained(runs, settings.baseline, task))
    not_drawn = write_figures(frames, results / "figures" / suite, against)
    report_files.remove_some(results, suite)
    if settings.ladder:
        climbed = times.ladder(timed, settings.ladder)
        times.write_ladder(climbed, settings.title, folder)
        steps.write_ladder(climbed, results / "figures" / suite)
    if simulated is not None:
        untimed = runs.no_time_because[runs.status == "done"].dropna().unique()
        asked = settings.simulate
        times.write(timed, settings.title, against, folder, task, list(untimed))
        over_workers = asked is not None and len(numbers_of_workers(asked, settings)) > 1
        over_rates = asked is not None and bool(asked.rates_gbit_per_second)
        figures = results / "figures" / suite
        write_simulated_figures(timed, figures, against, over_workers, over_rates)
    if settings.track is not None and simulated is not None:
        track_scores.write(suite, results)
    report_files.write_digests(results, suite)
    return not_drawn
