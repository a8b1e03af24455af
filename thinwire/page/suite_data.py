"""Everything that the page shows of one suite, as it is written into the page."""

import math
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.colors import to_hex

from thinwire import record
from thinwire.config.baselines import baselines
from thinwire.config.suite import load
from thinwire.config.suite_methods import as_it_ran
from thinwire.errors import UserError
from thinwire.page.runs import cell_names, columns, joined, read_runs, read_table
from thinwire.report.break_even import faster_between
from thinwire.report.collect import read_curves, read_summary, read_traffic
from thinwire.report.method_looks import look
from thinwire.report.own_recipes import note, own_recipes
from thinwire.report.report_digests import require_times_as_used
from thinwire.report.result_names import FEWEST_REPETITIONS
from thinwire.report.tables import numbers
from thinwire.simulation import simulated_file
from thinwire.suggested_command import suggested_command
from thinwire.train.result_folders import record_archive

_CELL = ["dataset", "model", "workers", "nodes"]
_ROW = [*_CELL, "method", "kind"]
_SIMULATED = ["size", "place", "nodes", "method"]


def suite_data(suite: str, results: Path) -> dict[str, Any]:
    """The settings, tables, curves and runs of a suite, in types that JSON knows.

    Raises:
        UserError: a file is missing, damaged, or not as it was collected.
    """
    runs = read_summary(results, suite)
    numbered = runs[[*_CELL, "method", "repetition"]].assign(run=range(len(runs)))
    methods = list(dict.fromkeys(runs.method))
    settings = as_it_ran(load(suite), methods)
    entries = {label: settings.methods.get(label) for label in methods}
    against = baselines(settings)
    try:
        tables = _tables(suite, results, settings.baseline)
    except (KeyError, AttributeError) as error:
        again = suggested_command("report", suite, results=results)
        raise UserError(f"a table of {suite} lacks a column ({error}): make it again with {again}") from None
    cells = _cells(runs, tables)
    facts = ["method", "repetition", "kind", "status", "reason", "no_time_because", "steps"]
    recorded, origins = read_runs(results, suite, runs)
    tables["runs"] = pd.concat([runs[[*facts, "test_accuracy_percent"]], recorded], axis=1)
    tables["runs"]["cell"] = cell_names(runs)
    curves = read_curves(results, suite).merge(numbered).sort_values(["run", "epoch"], kind="stable")
    sent = curves.payload_push_bytes + curves.payload_pull_bytes + curves.preparation_payload_bytes
    curves = curves.assign(megabytes=sent / 1e6, seconds=curves.get("train_seconds", math.nan))
    tables["curves"] = curves[["run", "epoch", "megabytes", "seconds", "test_accuracy_percent"]]
    ledgers = read_traffic(results, suite).merge(numbered)
    tables["ledgers"] = ledgers[["run", "channel", "verb", "payload_kind", "messages", *record.BYTES]]
    archive = record_archive(results, suite)
    return {
        "name": suite,
        "title": settings.title,
        "evaluated_on": settings.evaluate_on.replace("_", "-"),
        "baselines": against,
        "colours": {
            each: "var(--text)" if each in against else to_hex(look(each).colour) for each in methods
        },
        "modules": {label: (entry.use if entry else None) or label for label, entry in entries.items()},
        "recipes": own_recipes(settings),
        "recipes_note": note(settings),
        "cells": cells,
        "tables": {name: columns(table) for name, table in tables.items()},
        "origins": origins,
        "archive": archive.relative_to(results).as_posix() if archive.exists() else None,
    }


def _tables(suite: str, results: Path, baseline: str) -> dict[str, pd.DataFrame]:
    """All tables that were made of the suite's results, by their names."""
    read = {
        name: read_table(results, results / "tables" / suite / f"{name}.csv")
        for name in ("summary", "comparisons", "to_target", "times")
    }
    summary, compared, to_target = read["summary"], read["comparisons"], read["to_target"]
    simulated = simulated_file.read(results, suite)
    if compared is not None and not (compared.n >= FEWEST_REPETITIONS).any():
        compared = None
    if to_target is not None:
        # Of several targets the highest, which is that of the table of times, too.
        to_target = to_target.sort_values("target_accuracy_percent", kind="stable")
        to_target = to_target.drop_duplicates(_ROW, keep="last")
    tables = {}
    if summary is not None:
        require_times_as_used(results, suite)
        tables["leaders"] = _leaders(summary, compared, to_target)
        tables["places"] = _places(read["times"], summary, to_target, baseline)
    if compared is not None:
        shown = ["method", "against", "n", "margin_points", "detectable_points", "words"]
        shown += [f"difference_{end}_points" for end in ("mean", "low", "high")]
        tables["comparisons"] = compared[shown].assign(cell=cell_names(compared))
    if simulated is not None and len(speed_ups := speed_ups_of(simulated)):
        tables |= {"speed_ups": speed_ups, "break_even": break_even(speed_ups)}
    return tables


def _leaders(
    summary: pd.DataFrame, compared: pd.DataFrame | None, to_target: pd.DataFrame | None
) -> pd.DataFrame:
    """One row for each cell, method and kind, with how a person reads its numbers."""

    def texts(row: pd.Series) -> dict[str, str]:
        payload, saved = numbers.megabytes(row.total_bytes), numbers.percent(row.total_reduction_percent)
        if row.preparation_bytes > 0:
            payload += f" + {numbers.megabytes(row.preparation_bytes)} prepared"
            saved += f" ({numbers.percent(row.total_with_prepared_reduction_percent)} with prepared)"
        saved = saved.replace("-", "\N{MINUS SIGN}")
        epochs, accuracy = numbers.epochs(row), numbers.accuracy(row)
        return {"payload": payload, "saved": saved, "accuracy": accuracy, "epochs_text": epochs}

    rows = pd.concat([summary, pd.DataFrame([texts(row) for _, row in summary.iterrows()])], axis=1)
    shown = ["total_bytes", "total_reduction_percent", "accuracy_mean_percent", "epochs", "reason"]
    rows = rows[[*_ROW, *shown, "payload", "saved", "accuracy", "epochs_text"]]
    if compared is not None:
        rows = rows.merge(compared[[*_ROW, "words"]], on=_ROW, how="left")
    if to_target is not None:
        rows = rows.merge(to_target[[*_ROW, "epochs_median"]], on=_ROW, how="left")
    return rows.assign(cell=cell_names(rows)).drop(columns=_CELL)


def _places(
    times: pd.DataFrame | None, summary: pd.DataFrame, to_target: pd.DataFrame | None, baseline: str
) -> pd.DataFrame:
    """One row for each method and place that has a time, at the rate of the cluster itself.

    A suite that is not simulated has no table of times. Then its own times count, and `baseline` is the only
    one that they are compared with.
    """
    if times is None:
        times = summary.assign(own_rate=True, baseline=baseline, speed_up=summary.train_speed_up)
        times = times[times.train_seconds.notna()].reindex(columns=[*times, "cluster", "profile"])
        times = times.drop(columns=["target_accuracy_percent", "seconds_to_target"], errors="ignore")
        reached = summary[_ROW].assign(target_accuracy_percent=math.nan, train_seconds_median=math.nan)
        reached = (reached if to_target is None else to_target).rename(
            columns={"train_seconds_median": "seconds_to_target"}
        )
        times = times.merge(
            reached[[*_ROW, "target_accuracy_percent", "seconds_to_target"]], on=_ROW, how="left"
        )
    rows = _with_places(times[times.own_rate.astype(bool)])
    rows["place"] += " (" + rows.kind + ")"
    return rows[[*_SIMULATED, "kind", "baseline", "speed_up", "target_accuracy_percent", "seconds_to_target"]]


def _with_places(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with times and `size`, the cell without the nodes, and `place`: `ethernet_1g, here, 8 nodes`."""
    nodes = [f"{nodes} node{'s' if nodes > 1 else ''}" for nodes in rows.nodes]
    place = [joined(*row) for row in zip(rows.cluster, rows.profile, nodes)]
    return rows.assign(size=cell_names(rows.assign(nodes=1)), place=pd.Series(place, rows.index, dtype=str))


def speed_ups_of(simulated: pd.DataFrame) -> pd.DataFrame:
    """One row for each place, method and rate; only of places that were simulated at several rates."""
    rows = _with_places(simulated[simulated.speed_up.notna()])
    rows = rows[[*_SIMULATED, "rate_gbit_per_second", "speed_up"]]
    rows = rows.drop_duplicates([*_SIMULATED, "rate_gbit_per_second"])
    rows = rows[rows.groupby(["size", "place"]).rate_gbit_per_second.transform("nunique") > 1]
    return rows.sort_values(["size", "place", "rate_gbit_per_second"], kind="stable", ignore_index=True)


def break_even(rows: pd.DataFrame) -> pd.DataFrame:
    """For each place and method of `speed_ups_of` the rates between which it is faster than a baseline.

    Where it never is, both are missing. `from_gbit_per_second` is 0 if it is faster at the lowest rate, and
    `to_gbit_per_second` infinite if it is faster at the highest.
    """
    found = []
    for place, group in rows.groupby(_SIMULATED, sort=False):
        between = faster_between(list(group.rate_gbit_per_second), list(group.speed_up))
        found.append((*place, *(between or (math.nan, math.nan))))
    return pd.DataFrame(found, columns=[*_SIMULATED, "from_gbit_per_second", "to_gbit_per_second"])


def _cells(runs: pd.DataFrame, tables: dict[str, pd.DataFrame]) -> list[dict[str, Any]]:
    """The cells in the order in which they are offered: those with accuracies and times, by their workers."""
    cells = runs[_CELL].drop_duplicates()
    cells = cells.assign(name=cell_names(cells), size=cell_names(cells.assign(nodes=1)), complete=False)
    if "leaders" in tables:
        leaders = tables["leaders"]
        learned = cells.name.isin(leaders.cell[leaders.accuracy_mean_percent.notna()])
        cells["complete"] = learned & cells["size"].isin(tables["places"]["size"])
    cells = cells.sort_values(["complete", "workers"], ascending=False, kind="stable")
    shown = ["name", "size", "nodes", "complete"]
    return [dict(zip(shown, row)) for row in cells[shown].itertuples(index=False, name=None)]
