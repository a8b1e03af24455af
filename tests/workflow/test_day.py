"""A researcher's day: add a method, tune it, run a part of the grid, interrupt the rest, go on, compare."""

import os
import signal

import pandas as pd
import pytest

from tests.workflow.conftest import HELD_EPOCHS
from tests.workflow.test_tuning import TUNING

pytestmark = pytest.mark.slow

# Averages every second step; waits at the gate in the last but one epoch, if it is closed.
MINE = '''"""Averages every second step."""

import gate
import thinwire


class Method(thinwire.Method):
    def sync_weights(self):
        last = self.run.step + 1 == self.run.total_steps
        if last or self.run.step % 2:
            self.run.world.mean(self.run.weights, kind="weights").wait()
        if self.run.epoch == 1 and self.run.world.rank == 0:
            gate.wait()
'''


@pytest.fixture(scope="module")
def tuned(project):
    project.write("methods/mine.py", MINE)
    write_suite(project, "checkpoint_every_seconds: 0\n")
    project.write("config/tuning/day.yaml", TUNING.replace("TRIALS", "5"))
    answer = project.snakemake(suite="tuning/day")
    assert answer.returncode == 0, answer.stderr
    assert "20 of 20 runs" in answer.stderr
    write_suite(project, "checkpoint_every_seconds: 0\ntuned: day\n")
    return project


def write_suite(project, more):
    project.suite("day", "{ssgd: , mine: }", epochs=HELD_EPOCHS, workers="[2, 4]", more=more)


def records(project):
    folder = project.folder / "results/runs/day/digits/cnn"
    return {p.relative_to(folder).parents[1].as_posix(): p.read_bytes() for p in folder.rglob("run.json")}


def test_a_day(tuned):
    part = tuned.snakemake("workers=2", suite="day")
    assert part.returncode == 0, part.stderr
    first = records(tuned)
    assert sorted(first) == ["mine/w2", "ssgd/w2"]
    assert "4 cells: 2 done, 2 missing" in tuned.python("thinwire", "cells", "day").stdout

    with tuned.held("snakemake", "--config", "suites=day") as process:
        os.killpg(process.pid, signal.SIGINT)
        tuned.gate.open()
        _, said = process.communicate()
    assert process.returncode != 0
    assert "Traceback" not in said
    assert "WorkflowError" not in said
    assert "interrupted: start the same command again" in said
    assert "mine/w4" not in records(tuned)

    rest = tuned.snakemake(suite="day")
    assert rest.returncode == 0, rest.stderr
    assert {name: content for name, content in records(tuned).items() if name in first} == first
    log = tuned.folder / "results/runs/day/digits/cnn/mine/w4/seed0/log.txt"
    assert "goes on after step" in log.read_text()
    runs = pd.read_csv(tuned.folder / "results/summary.csv")
    assert list(zip(runs.method, runs.workers)) == [("ssgd", 2), ("mine", 2), ("ssgd", 4), ("mine", 4)]
    table = pd.read_csv(tuned.folder / "results/tables/day/summary.csv").set_index(["method", "workers"])
    assert 0 < table.total_reduction_percent["mine", 4] < 60
