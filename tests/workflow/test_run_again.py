"""`thinwire run` of a cell that has a record harms nothing that the pipeline has made."""

import pytest

from tests.commands import succeeded
from tests.waiting import SECONDS
from tests.workflow.conftest import HEAD, HELD, HELD_EPOCHS
from thinwire.records import record

pytestmark = pytest.mark.slow

CELL = "digits/cnn/ssgd/w2/seed0"
FAILS = HEAD + "    def step(self):\n        raise ValueError('no')\n"


@pytest.fixture(scope="module")
def made(project):
    project.suite("tiny", "{ssgd: }", epochs=1)
    succeeded(project.snakemake())
    return project


def folder(project, results="results"):
    return project.folder / results / "runs/tiny" / CELL


def run(project, *options):
    return project.python("thinwire", "run", "tiny", CELL, *options)


def test_a_finished_cell_is_not_trained_again_unless_asked(made):
    before = (folder(made) / record.RUN).read_text()
    answer = succeeded(run(made))
    command = f"`thinwire run tiny {CELL} --again`"
    said = f"{CELL}: finished before (done); its record is in {folder(made)}; {command} trains it again\n"
    assert answer.stdout == said
    assert (folder(made) / record.RUN).read_text() == before
    answer = succeeded(run(made, "--again"))
    assert "done: accuracy" in answer.stdout
    assert (folder(made) / record.RUN).read_text() != before
    assert not made.is_planned()


def test_a_finished_block_is_not_trained_again_unless_asked(made):
    before = (folder(made) / record.RUN).read_text()
    command = ("thinwire", "train", "tiny", "digits/cnn/w2/seed0")
    assert "1 of 1 runs were made before" in made.python(*command).stdout
    assert (folder(made) / record.RUN).read_text() == before
    assert made.python(*command, "--again").returncode == 0
    assert (folder(made) / record.RUN).read_text() != before


def test_another_transport_has_a_record_of_its_own(made):
    before = (folder(made) / record.RUN).read_text()
    succeeded(run(made, "--transport", "processes"))
    deviating = record.read(folder(made, "results/by_hand") / record.RUN)
    assert (deviating.status, deviating.kind) == ("done", "measured")
    assert (folder(made) / record.RUN).read_text() == before
    assert "--transport processes --again` trains it again" in run(made, "--transport", "processes").stdout
    # The transport of the suite is no deviation.
    assert "finished before" in run(made, "--transport", "inprocess").stdout
    assert not made.is_planned()
    assert made.python("thinwire", "collect", "tiny").returncode == 0


def test_a_record_of_other_options_is_set_aside_and_made_again(made):
    before = (folder(made) / record.RUN).read_text()
    made.suite("tiny", "{ssgd: }", epochs=2)
    refused = made.python("thinwire", "collect", "tiny")
    assert refused.returncode == 2
    assert (
        "made with other options than the suite has now (recipe.epochs): start the pipeline" in refused.stderr
    )
    assert f"or make this run again with `thinwire run tiny {CELL}`" in refused.stderr
    answer = succeeded(run(made))
    aside = made.folder / "results/set_aside/tiny" / CELL / "1"
    assert f"; it is now in {aside}, and the record is made again" in answer.stdout
    assert (aside / record.RUN).read_text() == before
    assert record.read(folder(made) / record.RUN).cell["recipe"]["epochs"] == 2
    assert made.python("thinwire", "collect", "tiny").returncode == 0
    # What was made for the earlier options is found again.
    made.suite("tiny", "{ssgd: }", epochs=1)
    answer = succeeded(run(made))
    assert f"{CELL}: made before, and found in the store; its record is in {folder(made)}" in answer.stdout
    assert (folder(made) / record.RUN).read_text() == before


def test_the_pipeline_takes_what_was_made_by_hand(made):
    made.suite("mine", "{ssgd: }", epochs=1)
    assert made.python("thinwire", "run", "mine", CELL).returncode == 0
    assert made.trained("mine") == []


def test_a_failed_cell_says_so(made):
    made.write("methods/fails.py", FAILS)
    made.suite("failing", "{fails: }", epochs=1, more="baseline: fails\n")
    command = ("thinwire", "run", "failing", "digits/cnn/fails/w2/seed0")
    assert made.python(*command).returncode == 1
    again = made.python(*command)
    assert again.returncode == 1
    assert "finished before (failed: ValueError: no (methods/fails.py, line 7))" in again.stdout


@pytest.mark.parametrize("decides", [True, False])
def test_an_edit_of_the_suite_during_a_run_is_said(made, decides):
    name, cell = f"edited{decides}".lower(), "digits/cnn/held/w2/seed0"
    made.write("methods/held.py", HELD)
    made.suite(name, "{held: }", HELD_EPOCHS, more="baseline: held\n")
    with made.run_held(name, cell) as process:
        epochs = HELD_EPOCHS + 1 if decides else HELD_EPOCHS
        made.suite(name, "{held: }", epochs, more="baseline: held\n# a comment\n")
        made.gate.open()
        output, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, errors
    assert (f"config/{name}.yaml was edited during this run" in output) is decides
    state = made.python("thinwire", "cells", name).stdout.splitlines()
    if decides:
        assert state[0].endswith(
            "out of date: made with other options than the suite has now (recipe.epochs)"
        )
    else:
        assert state == [f"{cell}  done", "1 cell: 1 done"]
