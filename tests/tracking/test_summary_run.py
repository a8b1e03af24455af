"""The run of W&B that sums up a suite, with its table and its artifact, and the report that shows both."""

import csv
import json
import shutil
from itertools import chain
from math import nan

import pytest

from tests import sound
from tests.commands import succeeded
from tests.tracking.conftest import CANARY, NOWHERE, containing_the_canary, python
from tests.tracking.stub import Sent
from thinwire.base.errors import UserError
from thinwire.base.folders import REFERENCE
from thinwire.config.expand import cells
from thinwire.plugins import ROOT
from thinwire.publish.wandb import fields, suite
from thinwire.report.report_files import SUMMARY

GRID = cells("demo")
PROJECT = "thinwire-demo"
ID = fields.about_suite("demo", GRID)["id"]


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Records of two runs, and the tables that are committed."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "results"
    for cell in GRID[:2]:
        sound.publish(folder, cell)
    shutil.copytree(ROOT / REFERENCE / "tables/demo", folder / "tables/demo")
    return folder


def test_the_table_has_the_means_and_the_verdicts_of_the_suite(results):
    shown = suite.shown("demo", results)
    with (results / "tables/demo" / SUMMARY).open() as file:
        rows = list(csv.DictReader(file))
    assert len(shown) == len(rows)
    for row, (_, made) in zip(rows, shown.iterrows(), strict=True):
        assert made.method == row["method"]
        mean = float(row["accuracy_mean_percent"] or "nan")
        assert made.accuracy_mean_percent == pytest.approx(mean, nan_ok=True)
        words = "baseline" if made.method == "ssgd" else row["words"]
        assert made.words == (words or pytest.approx(nan, nan_ok=True))
    assert {"accuracy_sd_percent", "n", "total_bytes", "reason"} <= set(shown.columns)
    assert "train_seconds" not in shown, "runs in one process have no times"


def test_a_label_that_looks_like_a_number_or_like_nothing_stays_text(results):
    path = results / "tables/demo" / SUMMARY
    path.write_text(path.read_text().replace(",top_k,", ",0010,").replace(",dgc,", ",NA,"))
    assert {"0010", "NA"} <= set(suite.shown("demo", results).method)


@pytest.mark.slow
def test_the_server_receives_the_table_and_an_artifact_with_all_tables(results, stub, tmp_path):
    track = ["thinwire", "track", "demo", "--results", "results"]
    for _ in range(2):
        assert "without its summary" not in succeeded(python(*track, folder=tmp_path, first=ROOT)).stdout
    for file in (results / "wandb" / PROJECT).rglob("*"):
        assert file.is_dir() or str(tmp_path).encode() not in file.read_bytes()
    assert containing_the_canary(tmp_path / "results") == []
    succeeded(python("wandb", "sync", f"results/wandb/{PROJECT}", folder=tmp_path))
    assert len(stub.runs) == 3, "a second replay replaces the first one"
    sent = stub.runs[PROJECT, ID]
    assert (sent.about["jobType"], sent.about["groupName"]) == ("summary", "demo/summary")
    (row,) = sent.rows
    table = json.loads(stub.files[row[suite.TABLE]["path"]])
    shown = suite.shown("demo", results)
    assert table["columns"] == list(shown.columns)
    assert len(table["data"]) == len(shown)
    assert [entry["artifactCollectionName"] for entry in stub.artifacts].count("tables-demo") == 1
    for path in (results / "tables/demo").glob("*.csv"):
        assert stub.files[f"artifact/{path.name}"] == path.read_bytes()


def test_the_id_changes_with_a_cell_and_not_with_the_part_that_is_there(results):
    assert fields.about_suite("demo", GRID)["id"] == ID
    assert fields.about_suite("demo", GRID[1:])["id"] != ID
    assert ID.startswith("demo-summary-")


def test_without_tables_there_is_no_summary_and_a_changed_one_is_refused(results):
    (results / "tables/demo" / SUMMARY).write_text("changed\n")
    with pytest.raises(UserError, match=r"summary\.csv was changed .* `thinwire report demo`"):
        suite.replay("demo", results)
    shutil.rmtree(results / "tables")
    assert suite.tables("demo", results) == []


@pytest.mark.slow
def test_a_report_has_the_table_and_curves_of_each_place_with_their_spread(stub):
    pytest.importorskip("wandb_workspaces")
    with pytest.raises(UserError, match=rf"^local has no project {PROJECT} in W&B: send the runs first"):
        suite.create_report("demo")
    stub.runs[PROJECT, ID] = Sent()
    assert suite.create_report("demo").startswith(f"{stub.url}/local/{PROJECT}/reports/")
    (sent,) = stub.reports
    assert (sent["entityName"], sent["projectName"], sent["id"]) == ("local", PROJECT, None)
    grids = [block["metadata"] for block in json.loads(sent["spec"])["blocks"] if "metadata" in block]
    (table,) = grids[0]["panelBankSectionConfig"]["panels"]
    assert table["config"]["panel2Config"]["exp"]["fromOp"]["inputs"]["key"]["val"] == suite.TABLE
    chosen = [grid["runSets"][0]["filters"]["filters"][0]["value"] for grid in grids]
    assert chosen[0] == fields.about_suite("demo", GRID)["job_type"]
    assert sorted(chain(*chosen[1:])) == sorted(set(map(fields.group, GRID)))
    assert len(grids) == 1 + len({cell.size_label for cell in GRID})
    for grid, groups in zip(grids[1:], chosen[1:], strict=True):
        panels = [panel["config"] for panel in grid["panelBankSectionConfig"]["panels"]]
        assert [panel["xAxis"] for panel in panels] == [fields.PAYLOAD, "step"]
        for panel in panels:
            assert panel["metrics"] == ["test_accuracy_percent"]
            assert (panel["groupBy"], panel["groupAgg"], panel["groupArea"]) == ("group", "mean", "stddev")
            assert panel["limit"] == len(groups)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["401", "nothing listens", "no key"])
def test_a_report_without_a_server_or_a_login_is_one_sentence(stub, monkeypatch, how):
    pytest.importorskip("wandb_workspaces")
    stub.status = 401
    if how == "nothing listens":
        monkeypatch.setenv("WANDB_BASE_URL", NOWHERE)
    if how == "no key":
        monkeypatch.delenv("WANDB_API_KEY")
    with pytest.raises(UserError) as refusal:
        suite.create_report("demo")
    assert "\n" not in str(refusal.value)
    assert str(refusal.value).endswith("a report needs the network and `wandb login`")
    assert CANARY not in str(refusal.value)


def test_a_report_without_its_package_is_one_sentence(monkeypatch):
    monkeypatch.setattr(suite, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"^reports in W&B need the package wandb-workspaces: `.*`$"):
        suite.create_report("demo")
