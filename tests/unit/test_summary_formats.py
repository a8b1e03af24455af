"""The summary in LaTeX, Typst and Markdown: odd names are text, and no mark claims an untested order."""

import re

import pandas as pd
import pytest
import typst

from tests.simulated import row as simulated
from tests.summary import ABOUT, run, table_of
from thinwire.base.learning import CLASSIFICATION
from thinwire.report.tables import formats
from thinwire.report.tables.about import About
from thinwire.report.tables.write import summary

ODD = "a_b&c%d#e$f{g}h~i^j\\k*l@m<n>[o]|p\"q'r`s--t=u/v é ± 値"
SCATTER = (0.0, 0.3, -0.2, 0.1, -0.1, 0.2)


def shown(table, about=ABOUT):
    return summary(table, about)


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
    (tmp_path / "summary.typ").write_text(shown(table, about)["typ"])
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


def test_the_baselines_come_first_and_then_who_sends_least():
    sent = {"dear": 300, "ssgd": 100, "cheap": 10, "ssgd_bf16": 50, "middle": 60}
    runs = [run(name, 0, bytes_=(size, size, size, 0)) for name, size in sent.items()]
    table = table_of(runs, ("ssgd", "ssgd_bf16"))
    assert list(table.method) == ["ssgd", "ssgd_bf16", "cheap", "middle", "dear"]


def test_accuracies_are_marked_only_if_every_comparison_can_be_told():
    told = [*runs_of("ssgd", 90.0), *runs_of("above", 92.0, 1.1), *runs_of("alike", 90.0, 1.05)]
    found = rows(shown(table_of(told))["md"])
    assert found["above"][2].startswith("**")
    assert found["alike"][2].startswith("<u>")
    assert found["ssgd"][2].startswith("<u>")
    unclear = [run("unclear", i, accuracy=a) for i, a in enumerate((93.0, 80.0, 99.0, 85.0, 97.0, 88.0))]
    found = rows(shown(table_of([*told, *unclear]))["md"])
    assert not any("**" in cells[2] or "<u>" in cells[2] for cells in found.values())


def test_who_failed_or_guesses_is_never_marked():
    thin = {"bytes_": (1, 1, 1, 0)}
    runs = [
        *runs_of("ssgd", 90.0),
        *runs_of("guesses", 10.0, **thin),
        *runs_of("fails", 90.0, bytes_=(2, 2, 2, 0)),
        run("fails", 6, status="failed", reason="out of luck"),
        *runs_of("thin", 90.0, bytes_=(50, 50, 50, 0)),
    ]
    found = rows(shown(table_of(runs))["md"])
    assert found["thin"][1] == "**50.0**"
    assert found["guesses"][1] == "99.0"
    assert found["fails"][1] == "98.0"
    assert found["ssgd"][1] == "0.0", "what saves nothing is not the second best"


def simulated_times(**more):
    about = {"workers": 4, "nodes": 2, "seconds_to_target": 5.0, "target_score": 89.0} | more
    return [simulated(name, 1.0, speed_up=up, **about) for name, up in (("ssgd", 1.0), ("thin", 3.0))]


def test_times_say_how_they_came_about():
    runs = [run("ssgd", 0), run("thin", 0)]
    table = table_of(runs, times=pd.DataFrame(simulated_times()))
    text = shown(table)["md"]
    assert "Times: simulated (ethernet_1g)." in text
    assert "times.md shows every cluster" in text
    assert rows(text)["thin"][-1] == "**3.00**"
    assert "speed-up" not in shown(table_of(runs))["md"]
    # Those of other nodes are shown only if there are no others.
    elsewhere = simulated_times(cluster="ethernet_10g", nodes=4)
    both = pd.DataFrame([*elsewhere, *simulated_times()])
    assert "Times: simulated (ethernet_1g)." in shown(table_of(runs, times=both))["md"]
    only = shown(table_of(runs, times=pd.DataFrame(elsewhere)))["md"]
    assert "Times: simulated (ethernet_10g), where the workers fill 4 nodes." in only


def test_a_table_of_one_format_has_the_cells_of_the_others():
    table = table_of([*runs_of("ssgd", 90.0), *runs_of("thin", 80.0, bytes_=(10, 10, 10, 0))])
    texts = shown(table)
    for value in ("90.05 ± 0.19 (6)", "worse by 10.00 points", "90.0"):
        assert value in texts["md"]
        assert value in texts["typ"]
        assert value.replace("±", r"$\pm$") in texts["tex"]
