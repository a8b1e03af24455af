"""A subset of the grid has the same cells, and a name that is in none of them is refused."""

import pandas as pd
import pytest

from tests import project
from tests.bad_input.suites import message
from thinwire.cli.arguments import parser
from thinwire.config.expand import cells
from thinwire.config.grid_subset import WHOLE, Subset
from thinwire.report.tables.about import subset_note

EVERY_KEY = "the keys are datasets, models, methods, workers, repetitions"
DEMO, PAPER, MP2 = cells("demo"), cells("paper/time"), cells("claims/mp2_digits")


def kept(every, *words):
    return Subset.of_words(words).keep(every)


def test_its_cells_are_those_of_the_grid_in_their_order():
    chosen = kept(DEMO, "methods=dgc,ssgd", "repetitions=2", "datasets=digits", "models=cnn")
    assert [cell.path for cell in chosen] == [
        f"digits/cnn/{method}/{size}/seed{seed}"
        for seed in (0, 1)
        for size in ("w4", "w8n2")
        for method in ("ssgd", "dgc")
    ]
    assert all(any(cell is other for other in DEMO) for cell in chosen)
    assert WHOLE.keep(DEMO) == DEMO


@pytest.mark.parametrize(("workers", "sizes"), [("4", {"w4"}), ("8", {"w8n2"}), ("w8n2,4", {"w4", "w8n2"})])
def test_workers_are_numbers_or_sizes(workers, sizes):
    assert {cell.size_label for cell in kept(DEMO, f"workers={workers}")} == sizes


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["methods=ssgd,dcg"], "methods=dcg is not in demo: the nearest is dgc"),
        (["workers=w8n1"], "workers=w8n1 is not in demo: the nearest is w8n2"),
        (["datasets=Digits"], "datasets=Digits is not in demo: the nearest is digits"),
        (["repetitions=4"], "repetitions=4 are not in demo: there are 3"),
        (["repetitions=0"], "repetitions=0: give one number; 2 chooses seed0 and seed1"),
        (["repetitions=1,2"], "repetitions=1,2: give one number; 2 chooses seed0 and seed1"),
        (["methods=ssgd,"], "methods: a name is empty; give KEY=NAME,NAME"),
        (["methods=ssgd", "methods=dgc"], "--only: methods is given twice; give all its names at once"),
        *(
            ([word], f"--only {word!r}: give KEY=NAME,NAME; {EVERY_KEY}")
            for word in ("ssgd", "suites=demo", "")
        ),
    ],
)
def test_a_wrong_subset_is_one_sentence(words, sentence):
    assert message(kept, DEMO, *words) == sentence


def test_of_several_suites_one_need_not_have_all_names_but_must_have_a_cell():
    subset = Subset.of_words(["methods=ssgd,mp2", "repetitions=3"])
    chosen = subset.keep(DEMO + MP2)
    assert {(cell.suite, cell.method.label) for cell in chosen} == {
        ("demo", "ssgd"),
        ("claims/mp2_digits", "ssgd"),
        ("claims/mp2_digits", "mp2"),
    }
    assert "methods=mp2 chooses no cell of demo" in message(kept, DEMO + MP2, "methods=mp2")
    # What a command about the suite alone is told, which would refuse the name.
    assert subset.within(DEMO) == Subset.of_words(["methods=ssgd", "repetitions=3"])
    assert subset.within(DEMO).keep(DEMO) == [cell for cell in chosen if cell.suite == "demo"]


def test_a_measured_block_keeps_all_its_methods_where_it_is_timed():
    assert "methods=ssgd leaves out methods of paper/time" in message(kept, PAPER, "methods=ssgd")
    assert {cell.repetition for cell in kept(PAPER, "repetitions=1")} == {0}
    every = ",".join(dict.fromkeys(cell.method.label for cell in PAPER))
    assert kept(PAPER, f"methods={every}") == PAPER
    chosen = Subset.of_words(["methods=ssgd"]).keep(PAPER, timed=False)
    assert {cell.method.label for cell in chosen} == {"ssgd"}


def test_the_option_of_a_command_is_the_subset():
    assert WHOLE.option() == []
    subset = Subset.of_words(["methods=ssgd,dgc", "repetitions=1"])
    assert subset.option() == ["--only", "methods=ssgd,dgc", "repetitions=1"]
    assert Subset.of_words(subset.option()[1:]) == subset
    # Snakemake reads numbers.
    assert Subset.of({"suites": "demo", "repetitions": 1, "workers": 4}) == Subset.of_words(
        ["repetitions=1", "workers=4"]
    )


def test_collect_says_that_its_subset_is_no_selection_of_rows(capsys):
    with pytest.raises(SystemExit):
        parser().parse_args(["collect", "--help"])
    assert "the cells that must have a record" in " ".join(capsys.readouterr().out.split())


OWN = project.demo()


def note(*words):
    return subset_note(pd.DataFrame([cell.labels for cell in kept(OWN, *words)]), OWN, "ssgd")


def test_a_whole_suite_has_no_note():
    assert note() is None


def test_a_subset_is_described_by_what_is_left():
    assert note("methods=ssgd,dgc", "repetitions=2") == (
        "A subset: 8 of the suite's 60 runs. "
        "Methods: ssgd, dgc (2 of 10). Repetitions: seed0, seed1 (2 of 3)."
    )
    assert note("workers=8") == "A subset: 30 of the suite's 60 runs. Workers: w8n2 (1 of 2)."
    assert note("methods=dgc").endswith(
        "The baseline ssgd is not among them, so there is nothing to compare with."
    )
