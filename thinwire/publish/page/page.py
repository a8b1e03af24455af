"""The page of all results, and the data of each suite on it."""

import json
import math
import re
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import vl_convert
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup, escape

import thinwire
from thinwire import plugins
from thinwire.api.declarations import AboutMethod
from thinwire.base.errors import UserError
from thinwire.base.files import write_text
from thinwire.base.folders import suggested_command
from thinwire.base.learning import LearningTask
from thinwire.config.entries import as_it_ran, baselines
from thinwire.config.suite import load
from thinwire.publish.page import claims_and_tracks
from thinwire.publish.page.data import (
    cell_names,
    columns,
    joined,
    looks,
    read_runs,
    read_table,
    times_without_data,
)
from thinwire.records.result import BYTES
from thinwire.report.claim_rows import is_reconstructed
from thinwire.report.report_files import FEWEST_REPETITIONS, PAGE, require_times_as_used
from thinwire.report.rows.collect import (
    read_curves,
    read_summary,
    read_traffic,
    suites_to_show,
    task_of_runs,
    with_engine_names,
)
from thinwire.report.rows.quantities import faster_ranges
from thinwire.report.tables import numbers
from thinwire.report.tables.about import note, own_recipes, partitions_note
from thinwire.simulation import simulated_file
from thinwire.train.result_files import record_archive

_CELL = ["dataset", "model", "workers", "nodes"]
_ROW = [*_CELL, "method", "kind"]
_OFFERED = ["name", "size", "nodes"]
_REACHED = ["target_score", "epochs_median", "steps_median", "train_seconds_median"]
_COMPARED = ["n", "margin", "detectable", "gain_mean", "gain_low", "gain_high", "words"]
_SIMULATED = ["size", "place", "nodes", "method"]


def suite_data(suite: str, runs: pd.DataFrame, results: Path) -> dict[str, Any]:
    """The settings, tables, curves and runs of a suite, in types that JSON knows.

    `runs` are as `read_summary` gives them. A `UserError` if a file is missing, damaged, or not as collected.
    """
    task = task_of_runs(runs)
    numbered = runs[[*_CELL, "method", "repetition"]].assign(run=range(len(runs)))
    methods = list(dict.fromkeys(runs.method))
    settings = as_it_ran(load(suite), methods)
    entries = {label: settings.methods.get(label) for label in methods}
    against = baselines(settings)
    try:
        tables = _tables(suite, results, settings.baseline, task)
    except (KeyError, AttributeError) as error:
        again = suggested_command("report", suite, results=results)
        raise UserError(f"a table of {suite} lacks a column ({error}): make it again with {again}") from None
    facts = ["method", "repetition", "kind", "status", "reason", "no_time_because", "steps"]
    recorded, origins = read_runs(results, suite, runs)
    tables["runs"] = pd.concat([runs[[*facts, "score"]], recorded], axis=1)
    tables["runs"]["cell"] = cell_names(runs)
    curves = read_curves(results, suite, task).merge(numbered).sort_values(["run", "epoch"], kind="stable")
    sent = curves.payload_push_bytes + curves.payload_pull_bytes + curves.preparation_payload_bytes
    curves = curves.assign(megabytes=sent / 1e6, seconds=curves.get("train_seconds", math.nan))
    tables["curves"] = curves[["run", "epoch", "megabytes", "seconds", "score"]]
    ledgers = read_traffic(results, suite).merge(numbered)
    tables["ledgers"] = ledgers[["run", "channel", "verb", "payload_kind", "messages", *BYTES]]
    archive = record_archive(results, suite)
    return {
        "name": suite,
        "title": settings.title,
        "score": {
            "name": task.score,
            "unit": task.score_unit,
            "digits": task.unit.digits,
            "gain": task.gain.format(against="the baseline"),
            "sign": task.sign,
            "gain_unit": task.unit.name,
        },
        "evaluated_on": settings.evaluate_on.replace("_", "-"),
        "baselines": against,
        "looks": looks(methods, against),
        "modules": {label: (entry.use if entry else None) or label for label, entry in entries.items()},
        "recipes": own_recipes(settings),
        "recipes_note": " ".join(filter(None, (note(settings), partitions_note(runs, cell_names(runs))))),
        "cells": _cells(runs),
        "tables": {name: columns(table) for name, table in tables.items()},
        "origins": origins,
        "archive": archive.relative_to(results).as_posix() if archive.exists() else None,
    }


def _tables(suite: str, results: Path, baseline: str, task: LearningTask) -> dict[str, pd.DataFrame]:
    """All tables of the suite's results by their names, with the engine's names of columns."""
    names = ("summary", "comparisons", "to_target", "times")
    read = {name: _read(results, results / "tables" / suite / f"{name}.csv", task) for name in names}
    summary, compared, reached = read["summary"], read["comparisons"], read["to_target"]
    tables: dict[str, pd.DataFrame] = {}
    if compared is not None and not (compared.n >= FEWEST_REPETITIONS).any():
        compared = None
    simulated = simulated_file.read(results, suite)
    if simulated is not None and len(speed_ups := speed_ups_of(simulated)):
        tables |= {"speed_ups": speed_ups, "break_even": break_even(speed_ups)}
    if summary is not None:
        require_times_as_used(results, suite)
        nothing = summary[_ROW].assign(words=None, **dict.fromkeys([*_REACHED, *_COMPARED[:-1]], math.nan))
        compared = nothing if compared is None else compared
        # Of several targets the hardest, which is that of the table of times, too.
        reached = (nothing if reached is None else reached)[[*_ROW, *_REACHED]]
        reached = reached.sort_values(_REACHED[0], ascending=task.higher_is_better, kind="stable")
        reached = reached.drop_duplicates(_ROW, keep="last")
        rows = _summary(summary, task).merge(compared[[*_ROW, *_COMPARED]], on=_ROW, how="left")
        rows = rows.merge(reached[[*_ROW, *_REACHED[:-1]]], on=_ROW, how="left")
        tables["summary"] = rows.assign(cell=cell_names(rows)).drop(columns=_CELL)
        tables["places"] = _places(read["times"], summary, reached, baseline)
    return tables


def _read(results: Path, path: Path, task: LearningTask) -> pd.DataFrame | None:
    table = read_table(results, path)
    return None if table is None else with_engine_names(table, task)


def _summary(summary: pd.DataFrame, task: LearningTask) -> pd.DataFrame:
    """What the page shows of the summary of a suite, and how a person reads its numbers."""

    def texts(row: pd.Series) -> dict[str, str]:
        payload, saved = numbers.megabytes(row.total_bytes), numbers.percent(row.total_reduction_percent)
        if row.preparation_bytes > 0:
            payload += f", + {numbers.megabytes(row.preparation_bytes)} prepared"
            saved += f", {numbers.percent(row.total_with_prepared_reduction_percent)} with prepared"
        saved = saved.replace("-", "\N{MINUS SIGN}")
        epochs, score = numbers.epochs(row), numbers.score(row, task.unit.digits)
        return {"payload": payload, "saved": saved, "score_text": score, "epochs_text": epochs}

    shown = ["total_bytes", "total_reduction_percent", "score_mean", "epochs", "reason"]
    shown += ["total_with_prepared_bytes", "total_with_prepared_reduction_percent"]
    written = [texts(row) for _, row in summary.iterrows()]
    return pd.concat([summary[[*_ROW, *shown]], pd.DataFrame(written)], axis=1)


def _places(
    times: pd.DataFrame | None, summary: pd.DataFrame, reached: pd.DataFrame, baseline: str
) -> pd.DataFrame:
    """One row for each method and place that has a time, at the rate of the cluster itself.

    A suite that is not simulated has no table of times. Then its own times count, and `baseline` is the only
    one that they are compared with.
    """
    if times is None:
        times = summary[summary.train_seconds.notna()][[*_ROW, "train_speed_up"]].merge(
            reached, on=_ROW, how="left"
        )
        new = {"train_speed_up": "speed_up", "train_seconds_median": "seconds_to_target"}
        times = times.rename(columns=new).assign(own_rate=True, cluster="", baseline=baseline)
    rows = _with_places(times[times.own_rate.astype(bool)])
    rows["place"] += " (" + rows.kind + ")"
    shown = ["kind", "baseline", "speed_up", "target_score", "seconds_to_target"]
    return rows[[*_SIMULATED, *shown]]


def _with_places(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with times and `size`, the cell without the nodes, and `place`: `ethernet_1g, 8 nodes`."""
    nodes = [f"{nodes} node{'s' if nodes > 1 else ''}" for nodes in rows.nodes]
    place = [joined(*row) for row in zip(rows.cluster, nodes)]
    return rows.assign(size=cell_names(rows.assign(nodes=1)), place=pd.Series(place, rows.index, dtype=str))


def speed_ups_of(simulated: pd.DataFrame) -> pd.DataFrame:
    """One row for each place, method and rate; only of places that were simulated at several rates."""
    rows = _with_places(simulated[simulated.speed_up.notna()])
    rows = rows[[*_SIMULATED, "rate_gbit_per_second", "speed_up", "step_seconds"]]
    rows = rows.drop_duplicates([*_SIMULATED, "rate_gbit_per_second"])
    rows = rows[rows.groupby(["size", "place"]).rate_gbit_per_second.transform("nunique") > 1]
    return rows.sort_values(["size", "place", "rate_gbit_per_second"], kind="stable", ignore_index=True)


def break_even(rows: pd.DataFrame) -> pd.DataFrame:
    """For each place and method of `speed_ups_of` a row for each range of rates in which it is faster.

    Where it never is faster than a baseline, it has one row, without rates. `from_gbit_per_second` is 0 if
    it is faster at the lowest rate, and `to_gbit_per_second` infinite if it is faster at the highest.
    """
    found = []
    for place, group in rows.groupby(_SIMULATED, sort=False):
        ranges = faster_ranges(list(group.rate_gbit_per_second), list(group.speed_up))
        found += [(*place, *between) for between in ranges or [(math.nan, math.nan)]]
    return pd.DataFrame(found, columns=[*_SIMULATED, "from_gbit_per_second", "to_gbit_per_second"])


def _cells(runs: pd.DataFrame) -> list[dict[str, object]]:
    """The cells in the order in which they are offered: those with most workers first."""
    cells = runs[_CELL].drop_duplicates()
    cells = cells.assign(name=cell_names(cells), size=cell_names(cells.assign(nodes=1)))
    cells = cells.sort_values("workers", ascending=False, kind="stable")
    return [dict(zip(_OFFERED, row)) for row in cells[_OFFERED].itertuples(index=False, name=None)]


_HERE = Path(__file__).parent


def write(results: Path) -> Path:
    """Write the page, and return its path; errors as of `html`."""
    path = results / PAGE
    write_text(path, html(results))
    return path


def html(results: Path) -> str:
    """The page of all suites that have results.

    A `UserError` if there are none, or a file is missing, damaged, or not as it was collected.
    """
    names = suites_to_show(results)
    runs = {name: read_summary(results, name) for name in names}
    # The page opens with the first one.
    most_runs_first = sorted(names, key=lambda name: len(runs[name]), reverse=True)
    suites = [suite_data(name, runs[name], results) for name in most_runs_first]
    simulated = times_without_data(results)
    used = [module for suite in suites for module in suite["modules"].values()]
    timed = [] if simulated is None else simulated["methods"].values()
    methods = sorted({*used, *(str(method["module"]) for method in timed)})
    reconstructed = [name for name in methods if is_reconstructed(name)]
    environment = Environment(loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined)
    environment.filters["prose"] = _prose
    data = {"suites": suites, "reconstructed": reconstructed, "times": simulated}
    as_json = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return environment.get_template("templates/page.html").render(
        scorecard=claims_and_tracks.scorecard(results),
        untested=claims_and_tracks.UNTESTED,
        times=simulated,
        tracks=claims_and_tracks.boards(results, names),
        methods=[_method(name) for name in methods],
        reconstructed=reconstructed,
        fewest_repetitions=FEWEST_REPETITIONS,
        version=thinwire.__version__,
        data=Markup(as_json.replace("<", "\\u003c")),  # no text in it ends a script element
        vega=_vega(),
        static=lambda name: Markup((_HERE / "static" / name).read_text(encoding="utf-8")),
    )


def _method(name: str) -> dict[str, object]:
    """What its module says about a method. One that cannot be used has runs that failed, so this says why."""
    try:
        about = plugins.about_method(name)
    except plugins.PluginError as error:
        path = plugins.show(plugins.get("method", name).path)
        about = AboutMethod(name, path, f"The module cannot be used: {error}", [], [], [], [], ())
    title, _, text = about.docstring.partition("\n")
    # It escapes text, and keeps indented formulas as they are.
    markdown = MarkdownIt("commonmark", {"html": False})
    title, text = markdown.renderInline(title), markdown.render(text)
    return {"about": about, "title": Markup(title), "text": Markup(text)}


def _prose(text: str) -> Markup:
    """A sentence, whose names in backticks are shown as code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))


@cache
def _vega() -> Markup:
    """The libraries that draw the charts, as one script, whose short names stay in it."""
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return Markup("(() => {" + bundle.replace("</script", "<\\/script") + "\n})()")
