"""`thinwire new` writes what works, never over something that is there."""

from argparse import Namespace

import numpy as np
import pytest
import torch

from thinwire import plugins
from thinwire.base import folders
from thinwire.base.errors import UserError
from thinwire.cli.new import new_main
from thinwire.config import expand


@pytest.fixture
def new(tmp_path, monkeypatch, capsys):
    """Write a plug-in or suite into an empty folder; returns what is printed."""
    monkeypatch.delenv(folders.VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)

    def new(kind, name):
        assert new_main(Namespace(kind=kind, name=name)) == 0
        return capsys.readouterr().out.splitlines()

    return new


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
