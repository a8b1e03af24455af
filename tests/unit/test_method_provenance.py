"""Methods declare where each of their steps comes from, and a method that does not still works."""

import re
from argparse import Namespace
from dataclasses import replace

import pytest

import thinwire
from tests import project
from tests.docs import pages
from thinwire import about_method, plugins
from thinwire.cli import show
from thinwire.errors import MethodError
from thinwire.method_provenance import SOURCES
from thinwire.plugins import ROOT
from thinwire.report.claims.reconstructed import is_reconstructed

DOCUMENTED = (ROOT / "docs/methods.md").read_text()
SHIPPED = [row[0].strip("`") for row in pages.tables(DOCUMENTED)[0][1:]]


def test_the_documentation_names_every_method_of_the_project():
    assert sorted(SHIPPED) == sorted(project.METHODS), "add it to the tables of docs/methods.md"


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_method_declares_its_steps(name):
    steps = [part.what for part in about_method.about_method(name).provenance]
    assert len(steps) == len(set(steps)) > 0


@pytest.mark.parametrize("name", [name for name in SHIPPED if is_reconstructed(name)])
def test_a_reconstructed_method_names_what_is_ours(name):
    assert "ours" in [part.source for part in about_method.about_method(name).provenance]


def test_the_documentation_explains_the_four_sources():
    for source, meaning in SOURCES.items():
        assert f"- *{source}*: {meaning}." in DOCUMENTED


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


@pytest.mark.parametrize("written", ["[]", "(('sums', 'ours', 'why'),)", "'ours'"])
def test_a_provenance_of_another_type_is_one_sentence(tmp_path, written):
    path = tmp_path / "mine.py"
    path.write_text(f"import thinwire\n\n\nclass Method(thinwire.Method):\n    provenance = {written}\n")
    with pytest.raises(
        plugins.PluginError, match=r"mine\.py: its provenance must be a tuple of thinwire\.Part"
    ):
        plugins.load_file("method", path, "thinwire_methods.mine")


def test_a_method_without_it_works(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("import thinwire\n\n\nclass Method(thinwire.Method):\n    pass\n")
    assert plugins.load_file("method", path, "thinwire_methods.mine").provenance == ()


def test_show_says_that_a_method_declares_nothing(monkeypatch, capsys):
    said = replace(about_method.about_method("ssgd"), provenance=())
    monkeypatch.setattr(show, "about_method", lambda name: said)
    show.main(Namespace(method="ssgd"))
    assert "where its steps come from: not declared\n" in capsys.readouterr().out
