"""Everything that the page shows of one suite, as it is written into the page."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from thinwire.config.baselines import baselines
from thinwire.config.suite import load
from thinwire.config.suite_methods import as_it_ran
from thinwire.config.suite_schema import Suite
from thinwire.page import leaders, rates
from thinwire.page.columns import columns
from thinwire.page.read_table import read_table
from thinwire.page.runs import Runs, read_runs
from thinwire.report import report_digests
from thinwire.report.collect import read_curves, read_summary
from thinwire.report.method_looks import looks
from thinwire.report.own_recipes import note, own_recipes
from thinwire.report.result_names import FEWEST_REPETITIONS
from thinwire.simulation import simulated_file
from thinwire.suggested_command import DEFAULT_RESULTS, suggested_command
from thinwire.train.result_folders import record_archive

_RUN = ["dataset", "model", "method", "workers", "nodes", "repetition"]


@dataclass(frozen=True)
class SuiteData:
    """What the page shows of a suite."""

    name: str
    modules: dict[str, str]
    """The module of each label of a method."""
    leaders: pd.DataFrame | None
    """The rows of its leader table; None if it has no table yet."""
    runs: pd.DataFrame
    """One row for each run."""
    content: dict[str, Any]
    """All of it, and the rest, in types that JSON knows."""


def suite_data(suite: str, results: Path) -> SuiteData:
    """Gather the settings, tables, curves and runs of a suite.

    Raises:
        UserError: a file is missing, damaged, or not as it was collected.
    """
    runs = read_runs(results, suite, read_summary(results, suite))
    methods = list(dict.fromkeys(runs.rows.method))
    settings = as_it_ran(load(suite), methods)
    against = baselines(settings)
    modules = {label: _module(settings, label) for label in methods}
    rows, tables = _tables(suite, results, settings.baseline)
    absent = _absent(suite, tables)
    tables["curves"] = _curves(read_curves(results, suite), runs)
    tables |= {"runs": runs.rows, "ledgers": runs.ledgers}
    archive = record_archive(results, suite)
    content = {
        "name": suite,
        "title": settings.title,
        "evaluated_on": settings.evaluate_on.replace("_", "-"),
        "baselines": against,
        "colours": _colours(methods, against),
        "modules": modules,
        "recipes": own_recipes(settings),
        "recipes_note": note(settings),
        "cells": runs.rows[leaders.CELL].drop_duplicates().to_dict("records"),
        "tables": {name: columns(table) for name, table in tables.items()},
        "absent": absent,
        "origins": runs.origins,
        # Beside committed results the records are in an archive, and their folders may not be there.
        "archive": archive.relative_to(results).as_posix() if archive.exists() else None,
    }
    return SuiteData(suite, modules, rows, runs.rows, content)


def _tables(suite: str, results: Path, baseline: str) -> tuple[pd.DataFrame | None, dict[str, pd.DataFrame]]:
    """The rows of the leader table, and all tables that were made of the suite's results, by their names."""
    folder = results / "tables" / suite
    summary = read_table(results, folder / "summary.csv", leaders.SUMMARY_COLUMNS)
    compared = read_table(results, folder / "comparisons.csv", leaders.COMPARISON_COLUMNS)
    to_target = read_table(results, folder / "to_target.csv", leaders.TO_TARGET_COLUMNS)
    if compared is not None and not (compared.n >= FEWEST_REPETITIONS).any():
        compared = None
    if to_target is not None and to_target.empty:
        to_target = None
    times = read_table(results, folder / "times.csv", leaders.TIMES_COLUMNS)
    simulated = simulated_file.read(results, suite)
    if summary is not None:
        report_digests.require_times_as_used(results, suite)
    tables: dict[str, pd.DataFrame] = {}
    rows = None
    if summary is not None:
        rows = tables["leaders"] = leaders.leaders(summary, compared, to_target)
        tables["places"] = leaders.places(times, summary, to_target, baseline)
    if compared is not None:
        tables["comparisons"] = compared[leaders.COMPARISON_COLUMNS]
    if simulated is not None and len(speed_ups := rates.speed_ups(simulated)):
        tables |= {"speed_ups": speed_ups, "break_even": rates.break_even(speed_ups)}
    return rows, tables


def _absent(suite: str, tables: Collection[str]) -> dict[str, str]:
    """For each table that is not there a sentence that says how it is made."""
    report = suggested_command("report", suite, results=DEFAULT_RESULTS)
    sentences = {
        "leaders": f"This suite has no table yet: {report} makes it.",
        "comparisons": "This suite has no verdicts on differences yet. They need "
        f"{FEWEST_REPETITIONS} repetitions or more; then {report} makes them.",
        "speed_ups": "This suite is not simulated at several rates of the links. Its key `simulate` asks for "
        "that, with `rates_gbit_per_second`; then `thinwire simulate` makes them.",
    }
    return {name: sentence for name, sentence in sentences.items() if name not in tables}


def _curves(curves: pd.DataFrame, runs: Runs) -> pd.DataFrame:
    """One row for each evaluation: the number of its run, and what the page draws."""
    numbers = {key: i for i, key in enumerate(runs.rows[_RUN].itertuples(index=False, name=None))}
    run = [numbers[key] for key in curves[_RUN].itertuples(index=False, name=None)]
    sent = curves.payload_push_bytes + curves.payload_pull_bytes + curves.preparation_payload_bytes
    seconds = curves.train_seconds if "train_seconds" in curves else float("nan")
    return pd.DataFrame(
        {
            "run": run,
            "epoch": curves.epoch,
            "megabytes": sent / 1e6,
            "seconds": seconds,
            "accuracy_percent": curves.test_accuracy_percent,
        },
    ).sort_values(["run", "epoch"], kind="stable", ignore_index=True)


def _colours(methods: list[str], against: list[str]) -> dict[str, str | None]:
    """The colour of each method, as in the figures; None for baselines, which have the colour of text."""
    palette = looks(methods, against)["palette"]
    assert isinstance(palette, dict)
    found: dict[str, str | None] = {}
    for method in methods:
        red, green, blue = (round(255 * part) for part in palette[method][:3])
        found[method] = None if method in against else f"#{red:02x}{green:02x}{blue:02x}"
    return found


def _module(settings: Suite, label: str) -> str:
    entry = settings.methods.get(label)
    return (entry.use if entry is not None else None) or label
