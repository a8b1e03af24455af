"""Plug-ins and suites of one's own are found beside those of the project; `thinwire new` writes them."""

import subprocess
from argparse import Namespace

import numpy as np
import pytest
import torch

from thinwire import plugins
from thinwire.base import folders
from thinwire.base.errors import UserError
from thinwire.cli import plugins_and_suites
from thinwire.cli.plugins_and_suites import new_main
from thinwire.config import expand, hardware, suite, tuned


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Write a file into a folder of one's own, which is the working folder."""
    monkeypatch.delenv(folders.VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)

    def write(path, text=""):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
        return tmp_path / path

    return write


def test_a_folder_is_ones_own_if_it_has_plug_ins_or_suites_and_is_outside_of_the_project(own, monkeypatch):
    assert folders.own() is None
    path = own("models/mine.py")
    assert folders.own() == path.parents[1]
    monkeypatch.chdir(folders.ROOT / "tests")  # which has methods/
    assert folders.own() is None
    monkeypatch.setenv(folders.VARIABLE, str(path.parents[1]))
    assert plugins.get("model", "mine").path == path
    monkeypatch.setenv(folders.VARIABLE, str(folders.ROOT / "tests"))
    with pytest.raises(UserError, match=r"cannot name .*/tests, which is inside .*: move yours out of it$"):
        folders.own()


def test_what_is_installed_inside_ones_own_folder_is_the_projects(tmp_path, monkeypatch):
    """As in `.venv`; a submission is a folder of one's own inside the project."""
    monkeypatch.setattr(folders, "ROOT", tmp_path / ".venv/project")
    belongs = [
        folders.belongs(tmp_path / path, tmp_path / folder)
        for path, folder in (
            ("methods/mine.py", ""),
            (".venv/project/methods/ssgd.py", ""),
            (".venv/project/submissions/a/methods/b.py", ".venv/project/submissions/a"),
        )
    ]
    assert belongs == [True, False, True]


def test_clusters_and_suites_are_found_and_a_suite_is_tuned_where_it_is(own):
    cluster = own("config/clusters/mine.yaml")
    cluster.write_text((hardware.CLUSTERS / "wan_100m.yaml").read_text().replace("wan_100m", "mine"))
    path = own("config/more/mine.yaml")
    assert hardware.load_cluster("mine").name == "mine"
    assert {"more/mine", "demo"} <= set(suite.suite_names())
    assert tuned.path_of("more/mine") == path.parents[1] / "tuned/more/mine.yaml"
    assert tuned.path_of("demo").is_relative_to(folders.ROOT)


def test_a_name_that_exists_twice_is_one_error(own):
    own("methods/ssgd.py")
    with pytest.raises(
        UserError, match=r"two method modules have the name ssgd, methods/ssgd\.py and /.*rename"
    ):
        plugins.find("method")
    path = own("config/demo.yaml")
    with pytest.raises(UserError, match=rf"demo\.yaml is both in .* and in {path.parents[1]}.*: rename one"):
        suite.load("demo")


def test_where_config_was_copied_its_suites_are_those_of_the_project(own):
    """As snakedeploy copies it, for `config/config.yaml` to be edited."""
    demo = (folders.ROOT / "config/demo.yaml").read_bytes()
    own("config/demo.yaml").write_bytes(demo)
    own("config/config.yaml").write_text("suites: laptop")
    assert suite.path_of("demo").is_relative_to(folders.ROOT)
    assert suite.load("demo").baseline == "ssgd"
    assert "config" not in suite.suite_names()


@pytest.fixture
def new(own, capsys):
    """Write a plug-in or suite into an empty folder; returns what is printed."""

    def new(kind, name):
        assert new_main(Namespace(kind=kind, name=name)) == 0
        return capsys.readouterr().out.splitlines()

    return new


def test_a_suite_keeps_the_names_of_plug_ins(new, own):
    own("methods/NAME_sgd.py").write_text((folders.ROOT / "methods/local_sgd.py").read_text())
    new("suite", "mine")
    assert "NAME_sgd" in suite.load("mine").methods


def test_a_plug_in_is_found_under_its_name_and_the_next_command_is_said(new, tmp_path):
    assert new("method", "mine") == [
        f"wrote {tmp_path}/methods/mine.py; next:",
        "  thinwire check mine",
        "  thinwire new suite SUITE",
    ]
    assert plugins.get("method", "mine").title.startswith("mine: each worker steps alone")
    assert plugins.get("method", "mine").load().equals_ssgd


def test_the_images_of_the_data_set_fit_into_the_model(new, tmp_path):
    new("model", "small")
    new("dataset", "rows")
    raw = plugins.get("dataset", "rows").load()().fetch(None, tmp_path)
    model = plugins.get("model", "small").load()
    logits = model(model.Config(), (1, 8, 8), 8)(torch.from_numpy(raw.train_inputs[:3]) / 255)
    assert logits.shape == (3, 8)
    assert set(np.unique(raw.test_labels)) == set(range(8))


def test_a_suite_has_ones_own_plug_ins_or_the_usual_ones(new):
    new("suite", "usual")
    assert {(c.dataset, c.model.label, c.method.label) for c in expand.cells("usual")} == {
        ("digits", "cnn", "ssgd"),
        ("digits", "cnn", "local_sgd"),
    }
    for kind, name in (("method", "mine"), ("dataset", "rows")):
        new(kind, name)
    said = new("suite", "more/own")
    assert said[1:] == ["  thinwire data rows", "  thinwire run more/own rows/cnn/mine/w4/seed0"]


def test_in_a_clone_a_suite_has_the_plug_ins_that_git_does_not_track(new, own, tmp_path, monkeypatch):
    monkeypatch.setattr(plugins_and_suites, "ROOT", tmp_path)
    own("methods/tracked.py")
    subprocess.run("git init -q && git add .", shell=True, check=True)
    own("methods/mine.py", (folders.ROOT / "methods/local_sgd.py").read_text())
    new("suite", "tried")
    assert list(suite.load("tried").methods) == ["ssgd", "mine"]


def test_commands_name_the_folder_if_it_is_another_one(new, tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.setenv(folders.VARIABLE, str(other))
    assert new("dataset", "rows")[1] == f"  thinwire --plugins {other} data rows"
    assert (other / "datasets/rows.py").is_file()


@pytest.mark.parametrize(("kind", "name"), [("method", "ssgd"), ("suite", "demo"), ("model", "there")])
def test_a_name_that_is_taken_is_refused(new, tmp_path, kind, name):
    (tmp_path / "models").mkdir()
    (tmp_path / "models/there.py").touch()
    with pytest.raises(UserError, match=f"^there is a {kind} {name} already: take another name$"):
        new_main(Namespace(kind=kind, name=name))
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["there.py"]
