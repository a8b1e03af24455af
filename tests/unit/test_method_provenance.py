"""What methods declare: where each of their steps comes from, and when they are nearly SSGD."""

import re
from argparse import Namespace
from dataclasses import replace

import pytest

import thinwire
from tests import project
from tests.docs import pages
from thinwire import about_method, plugins
from thinwire.api.declarations import SOURCES
from thinwire.base.errors import MethodError
from thinwire.cli import inspect
from thinwire.plugins import ROOT
from thinwire.report.claims.of_suite import is_reconstructed

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


DECLARES = '''"""A method."""

import thinwire


class Method(thinwire.Method):
    equals_ssgd = [thinwire.InTheLimit({})]
'''


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ('{"bits": 32}, tolerance=0, reason="32 bits"', r"\{'bits': 32\}\): its tolerance .* above 0, not 0"),
        (
            '{"bits": 32}, tolerance="0.1", reason="32 bits"',
            "its tolerance must be a number above 0, not '0.1'",
        ),
        ('{"bits": 32}, tolerance=float("nan"), reason="32 bits"', "its tolerance .* not nan"),
        ('{"bits": 32}, tolerance=1e-3, reason=" "', "it needs a reason why"),
        ('[], tolerance=1e-3, reason="32 bits"', "its options must be a dictionary"),
    ],
)
def test_a_wrong_value_is_refused_with_the_line_of_the_module(arguments, message, tmp_path):
    path = tmp_path / "nearly.py"
    path.write_text(DECLARES.format(arguments))
    with pytest.raises(plugins.PluginError, match=rf"nearly.py, line 7: .*{message}"):
        plugins.load_file("method", path, "nearly")


def test_show_says_that_a_method_declares_nothing(monkeypatch, capsys):
    said = replace(about_method.about_method("ssgd"), provenance=())
    monkeypatch.setattr(inspect, "about_method", lambda name: said)
    inspect.show_main(Namespace(method="ssgd"))
    assert "where its steps come from: not declared\n" in capsys.readouterr().out
