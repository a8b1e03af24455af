"""docs/columns.md explains every column of the files that are made; docs/provenance.md every invariant."""

import ast
import re
from dataclasses import replace

import pandas as pd
import pytest

import thinwire
from tests import simulated as simulated_times
from tests import sound
from tests.traced import trace_of
from tests.unit import test_track
from tests.unit.test_regimes import ONE
from tests.unit.test_regimes import TIMES as TIMES_WITHOUT_DATA
from tests.unit.test_without_data import ratios_of as ratios_of_stand_ins
from thinwire.base.learning import CLASSIFICATION
from thinwire.config.cell import sources
from thinwire.plugins import ROOT
from thinwire.records.result import Cost, Traffic
from thinwire.report import claims_table, track_scores
from thinwire.report.regimes import regimes
from thinwire.report.report_files import write_table
from thinwire.report.rows import collect, comparisons, times, to_target
from thinwire.report.rows.comparisons import with_comparisons
from thinwire.report.rows.quantities import summarise
from thinwire.report.rows.times import with_times
from thinwire.report.tables.about import About
from thinwire.report.tables.write import write as write_tables
from thinwire.trace import trace_file
from thinwire.train.result_files import record_folder

TEXT = (ROOT / "docs/columns.md").read_text()
CURVE, CURVES = "curve.parquet", "results/curves.parquet"
TRAFFIC, TRAFFIC_OF_ALL = "traffic.parquet", "results/traffic.parquet"
NAMED_IN_TEXT = {TRAFFIC_OF_ALL: ["payload_kind"]}
TABLES = "results/tables/SUITE"
METHODS_OWN = "method/*"


def section(file):
    """The text about a file."""
    (found,) = re.findall(rf"^## `{re.escape(file)}`.*?(?=^## |\Z)", TEXT, re.DOTALL | re.MULTILINE)
    return found


def explained(file):
    """The columns in the list of a file, with the words that say when each is empty: none if it never is.

    A sentence above a part of the list may say this for all of the part.
    """
    found, above = {}, ""
    for part in section(file).split("\n\n"):
        for names, meaning in re.findall(r"^- (`.*?): (.*?)(?=^- |\Z)", part, re.DOTALL | re.MULTILINE):
            assert meaning.strip()
            empty = " ".join(meaning.split()).partition("*Empty*: ")[2] or above
            found |= dict.fromkeys(re.findall(r"`([^`]+)`", names), empty)
        above = part if part.startswith("*Empty*") else ""
    return found


def explained_elsewhere(file):
    """The columns that the list of a file leaves out, because they mean the same as in another one."""
    other = re.search(r"Other columns are those\s+of\s+`(.*?)`", section(file))
    if other is None:
        return explained("results/summary.csv")
    return explained_elsewhere(other[1]) | explained(other[1])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Every file, made from a run that has everything, one that was skipped, and one whose process died."""
    results = tmp_path_factory.mktemp("results")
    timed, skipped, died = sound.cells("demo")[:3]
    timed, skipped = replace(timed, transport="processes"), replace(skipped, repetition=1)
    grid = [timed, skipped, died]
    cost = Cost(seconds=1.0, traffic=Traffic.sum(sound.curve(timed)))
    about = {"sources_sha256": sources(timed), "prepared_sha256": "0" * 64}
    sound.publish(results, timed, kind="measured", preparation=cost, provenance=about)
    nothing = {"epochs": 0, "result": None}
    sound.publish(results, skipped, status="skipped", reason="it needs more", **nothing)
    unknown = {"parameters": None, "total_steps": None}
    sound.publish(results, died, status="failed", reason="it died", **nothing, **unknown)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collect, "cells", lambda suite: grid)
        collect.collect(["demo"], results)
    folder = record_folder(results, timed)
    runs = collect.read_summary(results, "demo")
    simulated = simulated_times.rows(simulated_times.row("ssgd", workers=timed.workers))
    curves = collect.read_curves(results, "demo", CLASSIFICATION)
    compared = comparisons.comparisons(runs, "ssgd", CLASSIFICATION)
    needed = to_target.to_target(runs, curves, "ssgd", CLASSIFICATION)
    of_two = pd.concat([runs, runs.assign(method="thin")])
    write_table(compared, results / "tables/comparisons.csv", CLASSIFICATION)
    write_table(needed, results / "tables/to_target.csv", CLASSIFICATION)
    write_table(to_target.profiles(needed), results / "tables/profiles.csv")
    write_table(comparisons.speed_ups(of_two, ["ssgd"]), results / "tables/speed_ups.csv")
    times_table = times.times(simulated, runs, ["ssgd"], to_target.steps_to_target(needed))
    times.write(times_table, "Title", ["ssgd"], results / "tables", CLASSIFICATION)
    times.write_ladder(times.ladder(times_table, [times_table.method[0]]), "Title", results / "tables")
    summary = with_times(with_comparisons(summarise(runs, ["ssgd"], CLASSIFICATION), compared), times_table)
    write_tables(summary, About("Title", "test", ("ssgd",), CLASSIFICATION), results / "tables")
    trace = trace_of("ps_sgd")
    claims, _ = claims_table.table(results)
    claims_table.write(claims, results)
    tidy = thinwire.load(results)
    found = {
        "results/summary.csv": tidy.runs,
        CURVE: pd.read_parquet(folder / CURVE),
        CURVES: tidy.curves,
        TRAFFIC: pd.read_parquet(folder / TRAFFIC),
        TRAFFIC_OF_ALL: tidy.traffic,
        "results/simulated/SUITE.csv": simulated,
        "results/tables/hsgd_ratio.csv": ratios_of_stand_ins(nodes=(2,)),
        f"{TABLES}/scores.csv": track_scores.table(
            track_scores.scores(test_track.TRACK, [test_track.record("ssgd", 3.4)], test_track.SECONDS)
        ),
        "results/tables/regimes.csv": regimes(TIMES_WITHOUT_DATA, [ONE]),
        "results/claims.csv": pd.read_csv(results / "claims.csv"),
        trace_file.SPANS: trace.spans.to_pandas(),
        trace_file.CALLS: trace.calls.to_pandas(),
    }
    tables = ("summary", "times", "ladder", "comparisons", "to_target", "speed_ups", "profiles")
    return found | {f"{TABLES}/{name}.csv": pd.read_csv(results / f"tables/{name}.csv") for name in tables}


def of_file(frame):
    """Its columns, with the pattern of the method's own in the place of the first of them."""
    return list(dict.fromkeys(re.sub("^method/.*", METHODS_OWN, name) for name in frame))


def test_every_column_is_explained_in_its_place(made):
    for file, frame in made.items():
        own, columns = list(explained(file)), of_file(frame)
        assert [name for name in columns if name in own] == own, file
        assert set(columns) <= {*own, *explained_elsewhere(file), *NAMED_IN_TEXT.get(file, [])}, file


def test_a_column_that_is_never_empty_has_no_empty_value(made):
    for file, frame in made.items():
        assert len(frame), file
        for name, empty in (explained_elsewhere(file) | explained(file)).items():
            assert empty or name not in frame or frame[name].notna().all(), (file, name)


@pytest.mark.parametrize("suite", ["demo", "claims/mp2_digits"])
def test_the_committed_tables_have_these_columns(suite):
    header = (ROOT / "results/reference/tables" / suite / "summary.csv").read_text().splitlines()[0]
    file = f"{TABLES}/summary.csv"
    own, columns = list(explained(file)), header.split(",")
    assert [name for name in columns if name in own] == own
    assert set(columns) <= {*own, *explained_elsewhere(file), *NAMED_IN_TEXT.get(file, [])}


def named_invariants():
    """The first words of all checks, and of all invariants that are broken outside of lists of checks."""
    for path in (ROOT / "thinwire/records").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            values = node.elts if isinstance(node, ast.Tuple) else []
            if len(values) == 2 and isinstance(values[1], ast.Lambda):
                yield values[0].value
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Broken":
                yield from (each.value for each in node.args[:1] if isinstance(each, ast.Constant))


def test_every_invariant_is_explained():
    text = (ROOT / "docs/provenance.md").read_text()
    section = text.partition("### Invariants")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([a-z ]+) \| \S", section, re.MULTILINE)
    assert set(rows[1:]) == set(named_invariants())
    assert len(rows) == len(set(rows))
