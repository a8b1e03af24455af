"""A subset of a suite from the command line: the same records, and a note in the tables."""

import pandas as pd
import pytest

from tests.commands import succeeded

pytestmark = pytest.mark.slow

NOTE = "A subset: 2 of the suite's 6 runs. Methods: ssgd, top_k (2 of 3). Workers: w2 (1 of 2)."


@pytest.fixture(scope="module")
def made(project):
    project.suite("tiny", "{ssgd: , top_k: , local_sgd: }", epochs=1, workers="[1, 2]")
    succeeded(subset(project))
    return project


def subset(project, *more):
    return project.snakemake("methods=ssgd,top_k", "workers=2", "repetitions=1", *more)


def table(project):
    return (project.folder / "results/tables/tiny/summary.md").read_text()


def test_only_the_chosen_cells_are_made_collected_and_shown(made):
    runs = pd.read_csv(made.folder / "results/summary.csv")
    assert list(zip(runs.method, runs.workers)) == [("ssgd", 2), ("top_k", 2)]
    assert NOTE in table(made)
    assert (made.folder / "results/wandb/thinwire-tiny/replay.txt").read_text() == "2 of 2 runs\n"


def test_a_dry_run_says_what_is_there(made):
    answer = subset(made, "-n")
    assert "tiny: 2 cells: 2 done\n" in answer.stderr
    assert "Nothing to be done" in answer.stdout + answer.stderr
    lines = made.snakemake("-n").stderr.splitlines()
    assert "tiny: 6 cells: 4 missing, 2 done" in lines
    named = "digits/cnn/ssgd/w1/seed0, digits/cnn/top_k/w1/seed0, digits/cnn/local_sgd/w1/seed0 and 1 more"
    assert f"  missing: {named}" in lines


def test_the_whole_suite_makes_only_what_is_left_and_a_subset_nothing_and_loses_no_row(made):
    before = made.records()
    assert sorted(before) == ["ssgd/w2", "top_k/w2"]
    succeeded(made.snakemake())
    whole = made.records()
    assert len(whole) == 6
    assert before.items() <= whole.items()
    assert "A subset" not in table(made)
    succeeded(subset(made))
    assert made.records() == whole
    assert "A subset" not in table(made)
