"""Where the pipeline could end without a table: nothing is done, nothing is sent, a method that exits."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

TINY = """
title: Edges
seed: 1
repetitions: 1
datasets: [digits]
models: {cnn: {options: {width: 2}}}
methods: {ssgd: }
workers: [WORKERS]
recipe: {epochs: EPOCHS, batch: 64, batch_per: run, optimizer: {lr: 0.1}}
"""
CELL = "digits/cnn/ssgd/w2/seed0"
FIGURES = ("accuracy_over_epochs.pdf", "accuracy_against_bytes.pdf")


def suite(workers=2, epochs=2):
    return TINY.replace("WORKERS", str(workers)).replace("EPOCHS", str(epochs))


def thinwire(project, *arguments):
    return project.python("thinwire", *arguments, "--results", "edges")


@pytest.fixture(scope="module")
def laid_out(project):
    """The data, in a results folder of its own."""
    assert thinwire(project, "data", "digits").returncode == 0
    return project


def assert_report(project, name):
    for command in ("collect", "report"):
        said = thinwire(project, command, name)
        assert said.returncode == 0, said.stderr
    # The pipeline asks for every figure of every suite.
    for figure in FIGURES:
        assert (project.folder / "edges/figures" / name / figure).exists(), figure
    return (project.folder / f"edges/tables/{name}/summary.md").read_text()


def test_a_suite_of_which_nothing_is_done_still_has_its_table(laid_out):
    laid_out.write("config/hopeless.yaml", suite())
    assert thinwire(laid_out, "bury", "hopeless", CELL, "137").returncode == 0
    text = assert_report(laid_out, "hopeless")
    assert "1 failed" in text
    assert "SIGKILL" in text


def test_a_suite_in_which_nobody_sends_anything_still_has_its_figures(laid_out):
    laid_out.write("config/alone.yaml", suite(workers=1))
    assert thinwire(laid_out, "run", "alone", "digits/cnn/ssgd/w1/seed0").returncode == 0
    assert "| ssgd " in assert_report(laid_out, "alone")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("sys.exit(2)", "SystemExit"),
        ("raise thinwire.UserError('I am no input')", "I am no input"),
    ],
)
def test_what_a_method_raises_is_its_failure_and_no_bad_input(laid_out, body, says):
    """Else one method would end the pipeline for all, with no table and without a word."""
    laid_out.write(
        "methods/exits.py",
        '"""Exits."""\n\nimport sys\n\nimport thinwire\n\n\nclass Method(thinwire.Method):\n'
        f"    def step(self):\n        {body}\n",
    )
    laid_out.write("config/exits.yaml", suite().replace("ssgd: ", "ssgd: , exits: "))
    cell = CELL.replace("ssgd", "exits")
    shutil.rmtree(laid_out.folder / "edges/runs/exits", ignore_errors=True)
    said = thinwire(laid_out, "run", "exits", cell)
    (laid_out.folder / "methods/exits.py").unlink()
    assert said.returncode == 1, said.stdout + said.stderr
    record = json.loads((laid_out.folder / "edges/runs/exits" / cell / "run.json").read_text())
    assert record["status"] == "failed"
    assert says in record["reason"]


def test_a_pipeline_that_is_interrupted_buries_nothing_and_goes_on(project):
    """Control-C, and then a run whose folder somebody deletes."""
    project.write("config/stopped.yaml", suite(epochs=60))
    log = project.folder / f"results/logs/train/stopped/{CELL}.txt"
    record = project.folder / f"results/runs/stopped/{CELL}/run.json"
    with subprocess.Popen(
        [sys.executable, "-m", "snakemake", "--config", "suites=stopped"],
        cwd=project.folder,
        env=project.environment(),
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # A test that runs in the background inherits that SIGINT is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as pipeline:
        deadline = time.monotonic() + 120
        while not (log.exists() and "epoch   1" in log.read_text()):
            assert pipeline.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.killpg(pipeline.pid, signal.SIGINT)
        assert pipeline.wait(timeout=120) != 0
    assert not record.exists()
    assert list((project.folder / "results/partial/stopped" / CELL / "checkpoints").glob("[0-9]*"))

    again = project.snakemake(suite="stopped")
    assert again.returncode == 0, again.stderr
    assert json.loads(record.read_text())["interruptions"] == 1
    assert "goes on after step" in record.with_name("log.txt").read_text()


def test_a_run_whose_folder_was_deleted_is_made_again(project):
    project.write("config/deleted.yaml", suite())
    said = project.snakemake(suite="deleted")
    assert said.returncode == 0, said.stderr
    shutil.rmtree(project.folder / "results/runs/deleted" / CELL)
    said = project.snakemake("-n", suite="deleted")
    assert said.returncode == 0
    assert "Nothing to be done" not in said.stdout + said.stderr
    assert "train" in said.stdout + said.stderr


def test_data_that_cannot_be_had_are_one_sentence_of_the_pipeline(project):
    project.write("config/nodata.yaml", suite(epochs=1).replace("digits", "fashion_mnist"))
    (project.folder / "mine/fashion_mnist").mkdir(parents=True)
    said = project.snakemake("data=mine", suite="nodata")
    assert said.returncode != 0
    assert "thinwire: mine/fashion_mnist has neither" in said.stderr
    assert "Traceback" not in said.stderr


def test_an_unknown_suite_is_one_sentence_of_the_pipeline(project):
    said = project.snakemake(suite="no_such_suite")
    assert said.returncode != 0
    assert "there is no suite 'no_such_suite'" in said.stderr
    assert "Traceback" not in said.stderr
