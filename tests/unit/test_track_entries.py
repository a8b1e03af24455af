"""Methods of one's own are rows of a track, with options and a learning rate of their own."""

import pytest
import yaml

from thinwire.base import folders
from thinwire.base.errors import UserError
from thinwire.config import expand, suite

TRACK = {
    "title": "Tiny",
    "seed": 1,
    "repetitions": 2,
    "datasets": ["digits"],
    "models": {"cnn": None},
    "methods": {"ssgd": None},
    "workers": [2],
    "recipe": {"epochs": 1, "batch": 600, "batch_per": "run", "optimizer": {"lr": 0.1, "momentum": 0.9}},
    "simulate": {"clusters": ["wan_200m_50ms"], "accelerator": "a100_fp32"},
    "track": {"cluster": "wan_200m_50ms", "target": 50, "seeds": 2, "sigma": 0.05, "threshold": 3},
}


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv(folders.VARIABLE, str(tmp_path))
    for name in ("methods/mine.py", "config/entries/mine.yaml"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    (tmp_path / "config/tracks").mkdir()
    (tmp_path / "config/tracks/tiny.yaml").write_text(yaml.safe_dump(TRACK))
    other = {key: value for key, value in TRACK.items() if key != "track"}
    (tmp_path / "config/other.yaml").write_text(yaml.safe_dump(other))
    return tmp_path


def test_a_method_of_ones_own_is_a_row_of_a_track_and_of_no_other_suite(home):
    (home / "config/entries/mine.yaml").unlink()
    ssgd, mine = expand.cells("tracks/tiny")[:2]
    assert (mine.method.label, mine.method.options) == ("mine", {})
    assert mine.recipe == ssgd.recipe
    assert [cell.method.label for cell in expand.cells("other")] == ["ssgd", "ssgd"]


def test_its_entry_has_its_options_and_what_may_be_tuned(home):
    entry = {"options": {"period": 4}, "recipe": {"optimizer": {"lr": 0.5}}}
    (home / "config/entries/mine.yaml").write_text(yaml.safe_dump(entry))
    ssgd, mine = expand.cells("tracks/tiny")[:2]
    assert mine.method.options == {"period": 4}
    assert (mine.recipe.optimizer.lr, mine.recipe.optimizer.momentum) == (0.5, 0.9)
    assert ssgd.recipe.optimizer.lr == 0.1
    assert not any("entries" in name for name in suite.suite_names())


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ({"epochs": 9}, r"entries/mine\.yaml: epochs: there is no such key"),
        ({"optimizer": {"name": "adam", "momentum": 0.9, "lr": 1.0}}, r"entries/mine\.yaml: optimizer"),
        ({"optimizer": {"name": "adamw", "lr": 1.0}, "recipe": {"optimizer": {"momentum": 0.5}}}, "momentum"),
    ],
)
def test_an_entry_that_changes_the_track_or_does_not_fit_is_one_error(home, entry, sentence):
    (home / "config/entries/mine.yaml").write_text(yaml.safe_dump(entry))
    with pytest.raises(UserError, match=sentence):
        suite.load("tracks/tiny")


def test_a_wrong_option_is_one_error_with_the_file_of_the_entry(home):
    # Under a name of its own, because the process keeps what it has loaded.
    (home / "methods/mine.py").rename(home / "methods/wrong.py")
    (home / "methods/wrong.py").write_bytes((folders.ROOT / "methods/local_sgd.py").read_bytes())
    (home / "config/entries/wrong.yaml").write_text("options: {perio: 4}")
    with pytest.raises(UserError, match=r"entries/wrong\.yaml: options\.perio: there is no such key"):
        expand.require_valid("tracks/tiny")


def test_a_method_with_the_name_of_a_row_is_one_error(home):
    tiny = home / "config/tracks/tiny.yaml"
    tiny.write_text(yaml.safe_dump(TRACK | {"methods": {"ssgd": None, "mine": {"use": "top_k"}}}))
    with pytest.raises(UserError, match=r"methods/mine\.py: the track has a method mine already: rename the"):
        suite.load("tracks/tiny")
