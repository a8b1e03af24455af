"""The summary in LaTeX, Typst and Markdown: odd names are text, and no mark claims an untested order."""

import re

import pandas as pd
import pytest
import typst

from tests.simulated import row as simulated
from tests.summary import ABOUT, run, table_of
from thinwire.base.learning import CLASSIFICATION
from thinwire.report.tables import summary as formats
from thinwire.report.tables.about import About
from thinwire.report.tables.write import summary

ODD = "a_b&c%d#e$f{g}h~i^j\\k*l@m<n>[o]|p\"q'r`s--t=u/v é ± 値"
SCATTER = (0.0, 0.3, -0.2, 0.1, -0.1, 0.2)


def runs_of(method, mean, spread=1.0, **more):
    return [run(method, i, accuracy=mean + spread * each, **more) for i, each in enumerate(SCATTER)]


def rows(text):
    return {
        line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")[2:-1]]
        for line in text.splitlines()
        if line.startswith("| ")
    }


def test_odd_names_compile_in_typst(tmp_path):
    about = About(ODD, "test", ("ssgd",), CLASSIFICATION, {}, "", None, ODD)
    table = table_of([run("ssgd", 0), run(ODD, 0, model=ODD, reason=ODD, status="failed")])
    (tmp_path / "summary.typ").write_text(summary(table, about)["typ"])
    assert typst.compile(tmp_path / "summary.typ", format="pdf").startswith(b"%PDF")
    # Two hyphens are no dash in LaTeX.
    assert "--" not in formats.escaped_latex("a--b---c")


@pytest.mark.parametrize("character", sorted(set(ODD)))
def test_no_character_has_a_meaning_in_latex(character):
    """What is left after commands and braces are taken out has no active character."""
    escaped = formats.escaped_latex(character)
    plain = re.sub(r"\\text[a-z]+\{\}|\$\\?[a-z]*-?\$|\\[_&%#${}]|\{[^{}]\}|''", "", escaped)
    assert not set(plain) & set("_&%#${}~^\\\"'`[]")
    assert plain.isascii()


@pytest.mark.parametrize("character", "\\`*<[|")
def test_no_character_has_a_meaning_in_markdown(character):
    assert formats.escaped_markdown(f"a{character}b") == f"a\\{character}b"


def test_accuracies_are_marked_only_if_every_comparison_can_be_told():
    told = [*runs_of("ssgd", 90.0), *runs_of("above", 92.0, 1.1), *runs_of("alike", 90.0, 1.05)]
    found = rows(summary(table_of(told), ABOUT)["md"])
    assert found["above"][2].startswith("**")
    assert found["alike"][2].startswith("<u>")
    assert found["ssgd"][2].startswith("<u>")
    unclear = [run("unclear", i, accuracy=a) for i, a in enumerate((93.0, 80.0, 99.0, 85.0, 97.0, 88.0))]
    found = rows(summary(table_of([*told, *unclear]), ABOUT)["md"])
    assert not any("**" in cells[2] or "<u>" in cells[2] for cells in found.values())


def test_who_failed_is_never_marked():
    runs = [
        *runs_of("ssgd", 90.0),
        *runs_of("fails", 90.0, bytes_=(2, 2, 2, 0)),
        run("fails", 6, status="failed", reason="out of luck"),
        *runs_of("thin", 90.0, bytes_=(50, 50, 50, 0)),
    ]
    found = rows(summary(table_of(runs), ABOUT)["md"])
    assert (found["thin"][1], found["fails"][1]) == ("**50.0**", "98.0")


def test_times_are_of_one_cluster_and_those_of_other_nodes_say_so():
    place = {"workers": 4, "nodes": 4, "target_score": 89.0, "seconds_to_target": 5.0}
    times = [simulated("ssgd", cluster=cluster, **place) for cluster in ("ethernet_10g", "ethernet_1g")]
    runs = [run("ssgd", 0), run("thin", 0)]
    text = summary(table_of(runs, times=pd.DataFrame(times)), ABOUT)["md"]
    assert "Times: simulated (ethernet_10g), where the workers fill 4 nodes." in text
    assert "ethernet_1g" not in text
