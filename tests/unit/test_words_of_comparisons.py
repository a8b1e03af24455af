"""Only statistics/words.py says that something is better, worse, the same or faster: it asks the tests."""

import ast
import re

import pytest

from thinwire.plugins import ROOT

WORDS = re.compile(r"\b(better|worse|the same|no loss|faster)\b", re.IGNORECASE)
# Texts that define a term and say nothing of a result: the words around it, and why it may stand there.
ALLOWED = {
    "figures/comparisons.py": {
        "accuracies count as the same": "defines the band",
        "square: the same": "is a legend of verdicts",
    },
    "rows/times.py": {
        "over the faster of the baselines": "defines the speed-up",
        "in the same place": "says where the baseline is",
    },
    "figures/steps.py": {
        "speed-up over the better of": "names the axis",
        "over those of the better of": "names the axis",
    },
    "figures/rates.py": {
        "speed-up over the better of": "names the numbers",
        "bold: faster": "is a legend of simulated ratios, which have no test",
        "at which a method is faster": "is a legend of simulated ratios, which have no test",
    },
}
FILES = sorted((ROOT / "thinwire/report").rglob("*.py"))


def name_of(path):
    return f"{path.parent.name}/{path.name}"


def texts(path):
    """The string literals of a file that may reach a reader: all but its docstrings."""
    tree = ast.parse(path.read_text())
    defined = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, defined) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def claims(path):
    """The texts of a file with one of the words, without what is allowed there."""
    for text in texts(path):
        for words in ALLOWED.get(name_of(path), ()):
            text = text.replace(words, "")
        if WORDS.search(text):
            yield text


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_nobody_else_claims_anything(path):
    if path.name != "words.py":
        assert not list(claims(path)), "take the words from thinwire/report/statistics/words.py"


def test_all_words_are_found_where_they_come_from():
    found = WORDS.findall(" ".join(texts(ROOT / "thinwire/report/statistics/words.py")))
    assert set(found) == {"better", "worse", "the same", "no loss", "faster"}


def test_what_is_allowed_is_there():
    files = {name_of(path): " ".join(texts(path)) for path in FILES}
    for name, allowed in ALLOWED.items():
        for words in allowed:
            assert words in files[name], f"{name} no longer says {words!r}: remove it here"
