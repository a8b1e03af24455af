"""Plug-ins and suites of one's own are found beside those of the project."""

import pytest

from thinwire import plugins
from thinwire.base import folders
from thinwire.base.errors import UserError
from thinwire.config import clusters, suite, tuned


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
    cluster.write_text((clusters.CLUSTERS / "wan_100m.yaml").read_text().replace("wan_100m", "mine"))
    path = own("config/more/mine.yaml")
    assert clusters.load_cluster("mine").name == "mine"
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
