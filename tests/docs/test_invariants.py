"""docs/provenance.md explains every invariant that the code names, and no other."""

import ast
import re

from thinwire.plugins import ROOT

TEXT = (ROOT / "docs/provenance.md").read_text()


def named_in_code():
    """The first words of all checks, and of all invariants that are broken outside of lists of checks."""
    for path in (ROOT / "thinwire/records").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            values = node.elts if isinstance(node, ast.Tuple) else []
            if len(values) == 2 and isinstance(values[1], ast.Lambda):
                yield values[0].value
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Broken":
                yield from (each.value for each in node.args[:1] if isinstance(each, ast.Constant))


def test_every_invariant_is_explained():
    section = TEXT.partition("### Invariants")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([a-z ]+) \| \S", section, re.MULTILINE)
    assert set(rows[1:]) == set(named_in_code())
    assert len(rows) == len(set(rows))
