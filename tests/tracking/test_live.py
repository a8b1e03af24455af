"""A run that is shown in W&B while it trains, and what happens to it if W&B fails."""

import json
import signal

import pandas as pd
import pytest
import wandb

from tests.commands import succeeded
from tests.sound import curve, made
from tests.tracking.conftest import CANARY, NOWHERE, containing_the_canary, python, warnings_of
from tests.tracking.stub import Stub
from tests.waiting import SECONDS
from tests.workflow.conftest import HELD, HELD_EPOCHS, Project
from thinwire.config.expand import cells
from thinwire.publish.wandb import client, fields
from thinwire.publish.wandb.client import Live
from thinwire.records import record

CELL = cells("demo")[0]
KEY = (fields.project("demo"), fields.run_id(CELL))
ROWS = curve(CELL, 3)
PATH, HELD_PATH = "digits/cnn/ssgd/w2/seed0", "digits/cnn/held/w2/seed0"


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy with one run that is not held, and one that waits at the gate while it is closed."""
    project = Project(tmp_path_factory.mktemp("project"))
    project.suite("tiny", "{ssgd: {}}")
    project.write("methods/held.py", HELD)
    project.suite("held", "{held: {}}", HELD_EPOCHS, more="baseline: held\n")
    assert python("thinwire", "data", "digits", folder=project.folder).returncode == 0
    return project


@pytest.fixture
def fresh(project):
    """Nothing has run yet."""
    for name in ("runs", "partial", "wandb"):
        record.discard(project.folder / "results" / name)
    return project


@pytest.fixture
def online(monkeypatch):
    """Live tracking in this process."""
    monkeypatch.setenv("WANDB_MODE", "online")
    yield
    client.forget()


@pytest.fixture
def impatient(monkeypatch):
    """A short time-out for servers that never accept a run. Offline runs have the usual time."""
    begin = client.begin

    def hurried(about, folder, mode):
        with monkeypatch.context() as patch:
            if mode == "online":
                patch.setattr(client, "TIMEOUT_SECONDS", 1.0)
            return begin(about, folder, mode)

    monkeypatch.setattr(client, "begin", hurried)


def logged(folder, rows=ROWS):
    with Live(CELL, "inprocess", folder) as live:
        for step in range(len(rows) + 1):
            live.log(rows[:step])
        live.end(made(CELL, rows))


def test_every_evaluation_arrives_and_then_the_result(tmp_path, stub, online, capfd):
    logged(tmp_path)
    sent = stub.runs[KEY]
    assert [row["step"] for row in sent.rows] == [19, 38, 57]
    assert sent.summary["status"] == "done"
    assert sent.summary["test_accuracy_percent"]["last"] == ROWS[-1]["test_accuracy_percent"]
    assert sent.config["method"]["options"]["density"] == 0.25
    assert sent.exit_code == 0
    assert "seconds/" not in json.dumps([sent.about, sent.lines])
    assert capfd.readouterr() == ("", "")


def test_a_run_is_there_before_its_first_evaluation(tmp_path, stub, online):
    with Live(CELL, "inprocess", tmp_path) as live:
        live.log([])
        assert KEY in stub.runs
        assert stub.runs[KEY].exit_code is None
    assert stub.runs[KEY].exit_code == 1, "it published nothing"


def test_only_the_mode_online_shows_a_run(tmp_path, stub, monkeypatch):
    for mode in (None, "offline", "disabled"):
        if mode:
            monkeypatch.setenv("WANDB_MODE", mode)
        logged(tmp_path)
    assert stub.runs == {}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("how", ["401", "500", "nothing listens", "no key"])
def test_without_a_server_the_run_is_logged_offline(tmp_path, online, impatient, monkeypatch, capfd, how):
    with Stub(int(how) if how.isdigit() else 200) as server:
        monkeypatch.setenv("WANDB_BASE_URL", NOWHERE if how == "nothing listens" else server.url)
        if how == "no key":
            monkeypatch.delenv("WANDB_API_KEY")
        logged(tmp_path)
        assert server.runs == {}
    assert len([*(tmp_path / "wandb").glob("offline-run-*/*.wandb")]) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("thinwire: W&B: ")
    assert line.endswith(f"this run is logged offline, in {tmp_path / 'wandb'}")
    assert CANARY not in line


def test_if_offline_fails_too_nothing_is_logged(tmp_path, online, impatient, capfd):
    file = tmp_path / "file"
    file.write_text("")
    logged(file)
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("thinwire: W&B: ")
    assert "`thinwire track`" in line


def test_a_server_that_disappears_is_one_line(tmp_path, stub, online, monkeypatch, capfd):
    settings = wandb.Settings

    def hurried(**given):
        # The server takes the run, in its time, and then never takes its end.
        return settings(**(given | {"finish_timeout": 1.0}))

    monkeypatch.setattr(wandb, "Settings", hurried)
    with Live(CELL, "inprocess", tmp_path) as live:
        live.log(ROWS[:1])
        stub.status = 500
        live.log(ROWS)
        live.end(made(CELL, ROWS))
    (line,) = capfd.readouterr().err.splitlines()
    assert "not all of this run is in W&B" in line


def test_a_failure_while_logging_never_affects_the_run(tmp_path, stub, online, capfd):
    with Live(CELL, "inprocess", tmp_path) as live:
        live.log([{"step": 1}])  # no row of a curve
        live.log(ROWS)
        live.end(made(CELL, ROWS))
    assert len(capfd.readouterr().err.splitlines()) == 1


@pytest.mark.slow
def test_a_run_ends_alike_whether_it_is_shown_or_refused(fresh, stub, monkeypatch):
    results = fresh.folder / "results"
    folder = results / "runs/tiny" / PATH
    monkeypatch.setenv("WANDB_MODE", "online")
    curves = {}
    for status, warnings in ((401, 1), (200, 0)):
        stub.status = status
        answer = succeeded(python("thinwire", "run", "tiny", PATH, "--again", folder=fresh.folder))
        assert len(warnings_of(answer.stdout + answer.stderr)) == warnings
        curve = pd.read_parquet(folder / record.CURVE)
        curves[status] = curve[[name for name in curve.columns if not name.endswith("_seconds")]]
        assert containing_the_canary(results) == []
    pd.testing.assert_frame_equal(curves[200], curves[401])
    ((_, sent),) = stub.runs.items()
    rows = [{key: value for key, value in row.items() if not key.startswith("_")} for row in sent.rows]
    assert rows == [fields.history(row, None) for row in curve.to_dict("records")]
    run = record.read(folder / record.RUN)
    assert {key: sent.summary[key] for key in fields.summary(run)} == fields.summary(run)
    assert any(CANARY in key for key in stub.keys), "the key was in use"


@pytest.mark.slow
def test_a_resumed_run_logs_no_row_twice(fresh, stub, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "online")
    with fresh.run_held("held", HELD_PATH) as first:
        assert len(stub.runs) == 1
        first.send_signal(signal.SIGTERM)
        _, complaint = first.communicate(timeout=SECONDS)
        assert first.returncode == 128 + signal.SIGTERM, complaint
    ((_, sent),) = stub.runs.items()
    assert sent.exit_code == 1
    assert python("thinwire", "run", "held", HELD_PATH, folder=fresh.folder).returncode == 0
    run = record.read(fresh.folder / "results/runs/held" / HELD_PATH / record.RUN)
    assert run.interruptions == 1
    assert [row["epoch"] for row in sent.rows] == list(range(1, HELD_EPOCHS + 1))
    assert sent.exit_code == 0
    assert len(stub.runs) == 1
