"""docs/columns.md explains every column that the code writes, and no other."""

import re

import pandas as pd
import pytest

from tests.unit import test_tables
from thinwire import record
from thinwire.config.expand_suite import cells
from thinwire.plugins import ROOT
from thinwire.report import collect, tables

TEXT = (ROOT / "docs/columns.md").read_text()


def explained(heading):
    """The columns in the table below a heading."""
    (section,) = re.findall(rf"^## `{re.escape(heading)}`.*?(?=^## |\Z)", TEXT, re.DOTALL | re.MULTILINE)
    rows = [line.split("|")[1:4] for line in section.splitlines() if line.startswith("| `")]
    assert all(meaning.strip() for _, _, meaning in rows)
    return [name for names, _, _ in rows for name in re.findall(r"`([^`]+)`", names)]


def of_a_run():
    """The columns of a run that has everything: a preparation, a result, a time and a number of its own."""
    traffic = record.Traffic.sum([])
    made = record.Record(
        kind="measured",
        status="done",
        cell={},
        fingerprint="",
        method_options={},
        model_options={},
        preparation=record.Cost(seconds=1.0, traffic=traffic),
        result=record.Result(
            steps=1,
            test_accuracy_percent=1.0,
            test_loss=1.0,
            best_test_accuracy_percent=1.0,
            metrics={"*": 1.0},
            traffic=traffic,
            seconds=record.Seconds(train=1.0, eval=1.0, harness=1.0),
        ),
        provenance={},
    )
    return collect._columns([collect._names(cells("demo")[0]) | collect._row(made)])


def test_the_summary():
    assert explained("results/summary.csv") == of_a_run()


def test_the_curve_of_a_run():
    assert explained("curve.parquet") == [*record.CURVE_COLUMNS.names, "method/*"]


def test_the_curves_of_all_runs():
    """As `collect` assigns them to the curve of each run."""
    added = explained("results/curves.parquet")
    names = list(collect._names(cells("demo")[0]))
    assert sorted(added) == sorted([*names, "kind", "status", "preparation_payload_bytes"])


def test_the_traffic_of_a_run():
    assert explained("traffic.parquet") == record.TRAFFIC_COLUMNS.names


def test_the_table_of_a_suite():
    frame = tables.summarise(pd.DataFrame([test_tables.run("ssgd", 0)]), "ssgd")
    assert sorted(explained("results/tables/SUITE/summary.csv")) == sorted(frame.columns)


@pytest.mark.parametrize("name", ["demo", "mp2_digits"])
def test_the_reference_tables_have_these_columns(name):
    header = (ROOT / "results/reference" / f"{name}.csv").read_text().splitlines()[0]
    assert sorted(explained("results/tables/SUITE/summary.csv")) == sorted(header.split(","))
