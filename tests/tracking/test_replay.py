"""Records to offline runs, and on to a server, with the real client."""

import json

import pytest

from tests import sound
from tests.commands import succeeded
from tests.tracking.conftest import containing_the_canary, python, warnings_of
from tests.workflow.conftest import Project
from thinwire.base.errors import UserError
from thinwire.config.expand import cells
from thinwire.config.grid_subset import Subset
from thinwire.publish.wandb import client, fields, suite
from thinwire.records import record
from thinwire.train.result_files import record_folder

CELLS = {cell.path: cell for cell in cells("demo")}
DONE, MEASURED, DIVERGED, SKIPPED = (
    CELLS[f"digits/cnn/{path}"]
    for path in ("ssgd/w4/seed0", "ssgd/w8n2/seed0", "top_k/w4/seed1", "daso/w4/seed0")
)
OTHER = cells("claims/mp2_digits")[0]
PROJECT = "thinwire-demo"


@pytest.fixture
def results(tmp_path):
    """Records of every sort."""
    folder = tmp_path / "results"
    sound.publish(folder, DONE)
    sound.publish(folder, MEASURED, epochs=5, kind="measured")
    sound.publish(folder, DIVERGED, epochs=2, status="diverged", reason="the loss is not finite")
    sound.publish(folder, SKIPPED, epochs=0, status="skipped", reason="it needs at least 2 nodes")
    sound.publish(folder, OTHER)
    return folder


def track(results, *suites):
    return python("thinwire", "track", *suites, "--results", results)


def runs_in(results, project=PROJECT):
    return sorted(path.name.split("-", 3)[3] for path in (results / "wandb" / project).glob("offline-run-*"))


def sync(results, *projects):
    succeeded(python("wandb", "sync", *(results / "wandb" / project for project in projects)))


def test_the_server_receives_what_the_records_have(results, stub):
    answer = succeeded(track(results, "demo", OTHER.suite))
    assert answer.stderr == ""
    assert f"4 runs of demo replayed, {len(CELLS) - 4} are not published yet" in answer.stdout
    assert (
        "without its summary: the tables are not made yet; `thinwire report demo --results" in answer.stdout
    )
    assert stub.runs == {}, "a replay is offline"
    sync(results, PROJECT, "thinwire-claims-mp2_digits")
    expected = [DONE, MEASURED, DIVERGED, SKIPPED, OTHER]
    assert set(stub.runs) == {(fields.project(cell.suite), fields.run_id(cell)) for cell in expected}
    for cell in expected:
        _holds(stub.runs[fields.project(cell.suite), fields.run_id(cell)], cell, results)
    # A second replay leaves no second run, here or there.
    first = runs_in(results)
    assert suite.replay("demo", results).runs == len(first) == 4
    assert runs_in(results) == first
    sync(results, PROJECT)
    assert len(stub.runs) == len(expected)
    assert len(stub.runs[PROJECT, fields.run_id(MEASURED)].rows) == 5


def _holds(sent, cell, results):
    folder = results / "runs" / cell.suite / cell.path
    run = record.read(folder / record.RUN)
    about = sent.about
    assert about["displayName"] == cell.path.replace("/", "-")
    assert about["groupName"] == fields.group(cell)
    assert about["jobType"] == "train"
    assert about["tags"] == [*fields.about(cell, run.kind)["tags"], run.status]
    assert sent.config == without_empty(fields.about(cell, run.kind)["config"] | fields.config(run))
    curve = sound.curve(cell, {"done": 5 if run.kind == "measured" else 3, "diverged": 2}.get(run.status, 0))
    own = [{key: value for key, value in row.items() if not key.startswith("_")} for row in sent.rows]
    assert own == [fields.history(row, fields.seconds_of(run.kind)) for row in curve]
    assert {key: sent.summary[key] for key in fields.summary(run)} == fields.summary(run)
    assert sent.exit_code == (1 if run.status == "diverged" else 0)
    text = json.dumps([sent.about, sent.lines])
    assert ("seconds/" in text) is (run.kind == "measured")
    assert sent.axes == dict.fromkeys((metric.name for metric in fields.METRICS), "epoch")


def without_empty(tree):
    """The client leaves out empty mappings."""
    inner = {key: without_empty(value) if isinstance(value, dict) else value for key, value in tree.items()}
    return {key: value for key, value in inner.items() if value != {}}


def test_an_interrupted_replay_leaves_the_earlier_one(results, monkeypatch):
    suite.replay("demo", results)
    before = runs_in(results)
    sound.publish(results, CELLS["digits/cnn/ssgd/w4/seed1"])

    def stopped(run, made):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(client, "end", stopped)
        with pytest.raises(KeyboardInterrupt):
            suite.replay("demo", results)
    client.forget()
    assert runs_in(results) == before
    assert suite.replay("demo", results).runs == 5
    assert len(runs_in(results)) == 5
    assert not list((results / "wandb").glob("*.new"))


def test_a_missing_client_is_one_line(results, tmp_path):
    suite.replay("demo", results)
    before = runs_in(results)
    (tmp_path / "wandb.py").write_text("raise ImportError('no wandb here')\n")
    answer = succeeded(python("thinwire", "track", "demo", "--results", results, first=tmp_path))
    assert answer.stderr == "thinwire: W&B: no wandb here: the runs of demo are not replayed\n"
    assert (results / "wandb" / PROJECT / suite.NOTE).read_text() == "not replayed: no wandb here\n"
    assert runs_in(results) == before


def test_the_terminal_browser_reads_the_files_and_the_key_is_in_none(results, tmp_path):
    suite.replay("demo", results)
    assert containing_the_canary(tmp_path) == []
    assert not list((results / "wandb").rglob("requirements.txt"))
    assert not [path for path in (results / "wandb").rglob("*") if path.is_symlink()]
    (run,) = (results / "wandb" / PROJECT).glob(f"offline-run-*-{fields.run_id(MEASURED)}")
    answer = python("wandb", "leet", "inspect", "--json", run)
    lines = [json.loads(line) for line in answer.stdout.splitlines()]
    rows = [line["history"]["item"] for line in lines if line["type"] == "history"]
    assert [row["measured_seconds/train"] for row in rows] == [77.125 * epoch for epoch in range(1, 6)]
    metrics = [line["metric"] for line in lines if line["type"] == "metric"]
    axes = [metric["step_metric"] for metric in metrics if metric.get("name") == "test_accuracy_percent"]
    assert axes == ["epoch"]


def test_a_subset_keeps_the_other_runs_that_are_sound(results):
    """They stay in the tables, too."""
    subset = Subset.of({"methods": "ssgd"})
    made = suite.replay("demo", results, subset)
    ssgd = sum(cell.method.label == "ssgd" for cell in CELLS.values())
    assert (made.runs, made.cells) == (4, ssgd + 2)
    curve = record_folder(results, DIVERGED) / record.CURVE
    curve.write_bytes(curve.read_bytes()[:-8])
    assert suite.replay("demo", results, subset).runs == 3
    with pytest.raises(UserError, match="top_k/w4/seed1"):
        suite.replay("demo", results, Subset.of({"methods": "top_k"}))


def test_without_a_run_there_is_nothing_to_replay(tmp_path):
    with pytest.raises(UserError, match="no run of suite demo is published"):
        suite.replay("demo", tmp_path)


@pytest.mark.slow
def test_the_pipeline_replays_its_runs_and_works_without_a_client(tmp_path):
    project = Project(tmp_path)
    project.suite("tiny", "{ssgd: {}}", epochs=1)
    runs = project.folder / "results/wandb/thinwire-tiny"
    project.write("wandb.py", "raise ImportError('no wandb here')\n")
    answer = succeeded(project.snakemake())
    (line,) = warnings_of(answer.stdout + answer.stderr)
    assert line == "thinwire: W&B: no wandb here: the runs of tiny are not replayed"
    assert (runs / suite.NOTE).read_text() == "not replayed: no wandb here\n"
    assert (project.folder / "results/tables/tiny/summary.csv").is_file()
    (project.folder / "wandb.py").unlink()
    (runs / suite.NOTE).unlink()
    answer = succeeded(project.snakemake())
    assert warnings_of(answer.stdout + answer.stderr) == []
    assert (runs / suite.NOTE).read_text() == "1 of 1 runs\n"
    # The tables come first, so that the run which sums them up is there too.
    assert len(list(runs.glob("offline-run-*/*.wandb"))) == 2
    assert len(list(runs.glob("offline-run-*-tiny-summary-*"))) == 1
