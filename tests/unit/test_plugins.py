"""Plug-ins are found by their file and described by their source and by what methods declare."""

import re
from argparse import Namespace
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

import pytest
from pydantic import Field

import thinwire
from tests import project
from tests.docs import pages
from thinwire import plugins
from thinwire.api.declarations import SOURCES
from thinwire.base import options
from thinwire.base.errors import MethodError
from thinwire.cli import plugins_and_suites
from thinwire.plugins import ROOT
from thinwire.report.claim_rows import is_reconstructed

Share = Annotated[float, Field(gt=0, le=1)]


class Plug:
    @dataclass
    class Config:
        period: Annotated[int, Field(ge=1)] = 16  # steps between two averages
        memory: Literal["keep", "reset"] = "keep"  # what happens
        densities: tuple[float, ...] = ()  # one for each epoch
        sizes: list[int] = field(default_factory=lambda: [1])  # of something
        plain: float = 0.5
        share: Share = 0.1  # a named type
        # Above.
        commented: bool = True  # And behind.


def test_options_are_described_from_the_source():
    described = {option.name: option for option in options.describe(Plug)}
    assert described["period"] == ("period", "int, ge=1", "16", "steps between two averages")
    assert described["memory"].type == "'keep' | 'reset'"
    assert described["share"].type == "float, gt=0, le=1"
    assert described["commented"].help == "Above. And behind."
    assert described["sizes"].default == "[1]"
    assert described["plain"].help == ""


def test_options_take_their_defaults_and_nothing_is_converted():
    assert options.as_dict(options.resolve(Plug, {"period": 4, "densities": [0.25]})) == {
        "period": 4,
        "memory": "keep",
        "densities": (0.25,),  # YAML has no tuples
        "sizes": [1],
        "plain": 0.5,
        "share": 0.1,
        "commented": True,
    }


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "methods" / "packaged").mkdir(parents=True)
    files = {
        "one.py": '"""The first line.\n\nMore."""\nclass Method:\n    def prepare(self): ...\n',
        "two.py": "class Other:\n    def prepare(self): ...\nclass Method:\n    x = 1\n",
        "_helper.py": "",
        "broken.py": "class Method(:\n",
        "packaged/__init__.py": '"""A package: ü."""\n',
    }
    for name, text in files.items():
        (tmp_path / "methods" / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_every_file_is_a_plugin_but_for_those_with_an_underscore(folder):
    found = plugins.find("method", folder)
    assert list(found) == ["broken", "one", "packaged", "two"]
    assert found["one"].title == "The first line."
    assert found["two"].title == "(no docstring)"
    assert found["broken"].title == "(cannot be read)"
    assert found["packaged"].title == "A package: ü."
    # A hook is found without running the code.
    assert {name for name, plugin in found.items() if plugin.defines("prepare")} == {"one"}


def test_the_digest_of_a_package_has_the_names_of_its_files(folder):
    package = plugins.find("method", folder)["packaged"]
    helper = package.path.parent / "helper.py"
    helper.write_text("")
    before = package.sha256
    helper.rename(helper.with_name("helpers.py"))
    assert package.sha256 != before


def test_an_edit_of_a_data_set_that_another_reads_is_one_of_both(tmp_path, monkeypatch):
    paths = {name: tmp_path / f"{name}.py" for name in ("plays", "roles")}
    paths["plays"].write_text("class Dataset:\n    pass\n")
    paths["roles"].write_text('class Dataset:\n    reads_datasets = ("plays",)\n')
    found = {name: plugins.Plugin("dataset", name, path) for name, path in paths.items()}
    monkeypatch.setattr(plugins, "find", lambda kind: found)
    assert found["roles"].files == [paths["roles"], paths["plays"]]
    before = found["roles"].sha256
    paths["plays"].write_text("class Dataset:\n    corrected = True\n")
    assert found["roles"].sha256 != before


def test_the_data_sets_name_those_that_they_read():
    """They load them by name, which no import shows."""
    for plugin in plugins.find("dataset").values():
        loaded = set(re.findall(r'plugins\.get\("dataset", "(\w+)"\)', plugin.path.read_text()))
        assert loaded == set(plugin.literal("reads_datasets") or ()), plugin.name


def test_class_attributes_are_read_without_running_the_code(folder):
    path = folder / "methods" / "one.py"
    path.write_text(
        "raise SystemExit\nclass Method:\n    ablations: ClassVar[list] = [{'a': 1}]\n    tunes = {}\n"
        "    tunes = other = {'b': (0.1, 1)}\n    prepares_for_any_epochs: bool\n"
    )
    plugin = plugins.find("method", folder)["one"]
    assert plugin.literal("ablations") == [{"a": 1}]
    assert plugin.literal("tunes") == {"b": (0.1, 1)}
    assert plugin.literal("prepares_for_any_epochs") is None


@pytest.mark.parametrize(
    "line",
    [
        "tunes = {'clip': (LOW, 1)}",
        "tunes: dict = dict(clip=(0.1, 1))",
        "tunes = {[]: 1}",
        "tunes = ['clip']",
        "ablations = [1]",
        "ablations = {'momentum': 'drop'}",
        "prepares_from_models = 'cnn'",
        "prepares_for_any_epochs = 'no'",
    ],
)
def test_a_class_attribute_that_is_no_literal_as_it_should_be_is_one_sentence(folder, line):
    name = line.split()[0].rstrip(":")
    (folder / "methods" / "one.py").write_text(f"class Method:\n    {line}\n")
    plugin = plugins.find("method", folder)["one"]
    with pytest.raises(plugins.PluginError, match=rf"one\.py, line 2: {name} must be a literal such as "):
        plugin.literal(name)


def test_a_package_imports_its_own_modules_in_every_way(folder):
    package = folder / "methods" / "packaged"
    (package / "helper.py").write_text("ANSWER = 42\n")
    (package / "__init__.py").write_text(
        "import thinwire\nfrom . import helper\nfrom .helper import ANSWER\n"
        "class Method(thinwire.Method):\n    answers = [helper.ANSWER, ANSWER]\n"
    )
    method = plugins.load_file("method", package / "__init__.py", "thinwire_methods.packaged_for_a_test")
    assert method.answers == [42, 42]


DOCUMENTED = (ROOT / "docs/methods.md").read_text()
SHIPPED = [row[0].strip("`") for row in pages.tables(DOCUMENTED)[0][1:]]


def test_the_documentation_names_every_method_of_the_project_and_explains_the_sources():
    assert sorted(SHIPPED) == sorted(project.METHODS), "add it to the tables of docs/methods.md"
    for source, meaning in SOURCES.items():
        assert f"- *{source}*: {meaning}." in DOCUMENTED


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_method_declares_its_steps(name):
    steps = [part.what for part in plugins.about_method(name).provenance]
    assert len(steps) == len(set(steps)) > 0


@pytest.mark.parametrize("name", [name for name in SHIPPED if is_reconstructed(name)])
def test_a_reconstructed_method_names_what_is_ours(name):
    assert "ours" in [part.source for part in plugins.about_method(name).provenance]


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (("sums", "our", "why"), "source is 'our'; write one of: certain, from code, related work, ours"),
        (("sums", ["ours"], "why"), "source is ['ours']; write one of"),
        (("", "ours", "why"), "Part(''): it needs a text that says what is done"),
        (("sums", "ours", None), "Part('sums'): it needs a text that says where it says so"),
    ],
)
def test_a_wrong_entry_is_one_sentence(texts, words):
    with pytest.raises(MethodError, match=re.escape(words)):
        thinwire.Part(*texts)


def test_show_says_that_a_method_declares_nothing(monkeypatch, capsys):
    said = replace(plugins.about_method("ssgd"), provenance=())
    monkeypatch.setattr(plugins_and_suites, "about_method", lambda name: said)
    plugins_and_suites.show_main(Namespace(method="ssgd"))
    assert "where its steps come from: not declared\n" in capsys.readouterr().out
