"""The table of claims is about all suites, with runs or without."""

from argparse import Namespace

import pandas as pd
import pytest

from tests.claims import run, runs
from thinwire import plugins
from thinwire.base import digests
from thinwire.base.errors import UserError
from thinwire.cli import results as command
from thinwire.config import claims, suite
from thinwire.config.suite import load
from thinwire.pipeline import inputs
from thinwire.plugins import ROOT
from thinwire.report.claims import table


@pytest.fixture
def results(tmp_path):
    """Collected runs of MP2's small suite."""
    about = {"suite": "claims/mp2_digits", "model": "lenet", "nodes": 1, "classes": 10}
    most = {"wire_received_bytes": 0, "wire_sent_max_bytes": 0, "wire_received_max_bytes": 0}
    methods = {"ssgd": 100, "ssgd_bf16": 2, "bsp": 100, "mp2": 12}
    rows = [
        run(name, n, push, no_time_because=None, evaluated_images=539, **about, **most)
        for name, push in methods.items()
        for n in range(3)
    ]
    runs(*rows).to_csv(tmp_path / "summary.csv", index=False)
    digests.write_json(tmp_path / "collected.json", {"files": digests.of_files(tmp_path, ["summary.csv"])})
    return tmp_path


def of_suite(made, name="claims/mp2_digits"):
    return made[made.suite == name].set_index("id")


def test_a_suite_with_runs_has_verdicts_and_the_others_have_none_yet(results):
    made, left_out = table.table(results)
    assert left_out == []
    own = of_suite(made)
    assert list(own.index) == [claim.id for claim in load("claims/mp2_digits").claim]
    assert own.verdict["002-a.1"] == "held"
    assert own.verdict["002-a.4"] == "contradicted"
    assert own.verdict["002-c"] == "cannot be told"
    assert "3 of the suite's 10 pairs are complete" in own.reason["002-c"]
    assert set(of_suite(made, "claims/hylo").reason) == {"no runs yet"}


def test_without_any_results_every_claim_is_there(tmp_path):
    made, _ = table.table(tmp_path)
    tested = [claim.id for name in suite.suite_names() for claim in load(name).claim]
    assert sorted(made.id) == sorted([*tested, *(claim.id for claim in claims.read_untested())])
    assert set(made.verdict) == {"cannot be told", "not testable here"}
    assert made.says.str.len().min() > 20


def test_an_untested_claim_quotes_what_a_benchmark_printed(tmp_path):
    made, _ = table.table(tmp_path)
    (said,) = made[made.id == "003-c"].says
    newest = max((ROOT / "benchmarks" / "records").glob("*/io.txt"))
    for line in newest.read_text().splitlines():
        assert (line in said) == (" seeks, " in line)
    assert plugins.show(newest) in inputs.files_with_claims()


def test_without_the_benchmarks_nothing_is_quoted(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "ROOT", tmp_path)
    made, _ = table.table(tmp_path)
    (said,) = made[made.id == "003-c"].says
    assert said.endswith("seconds in small.")
    assert not [path for path in inputs.files_with_claims() if path.startswith("benchmarks")]


def test_the_command_writes_the_same_bytes_again(results, capsys):
    written = []
    for _ in range(2):
        assert command.claims_main(Namespace(results=results)) == 0
        written.append([(results / name).read_bytes() for name in ("claims.csv", "claims.md")])
    assert written[0] == written[1]
    assert "| 002-a.1 | claims/mp2_digits" in capsys.readouterr().out
    read = pd.read_csv(results / "claims.csv")
    assert list(read) == list(table.COLUMNS)
    assert set(read.verdict) <= {"held", "contradicted", "cannot be told", "not testable here"}


def test_a_suite_that_cannot_be_read_is_left_out_with_a_sentence(results, monkeypatch):
    def broken(name):
        if name == "claims/hylo":
            raise UserError("config/claims/hylo.yaml: seed: it is missing")
        return load(name)

    monkeypatch.setattr(table.suites, "load", broken)
    made, left_out = table.table(results)
    assert left_out == ["left out of claims.csv: config/claims/hylo.yaml: seed: it is missing"]
    assert "claims/hylo" not in set(made.suite)
    assert "held" in set(made.verdict)
