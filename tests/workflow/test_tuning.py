"""A tuning in miniature: from its ranges to a suite that takes what was chosen."""

import pandas as pd
import pytest
import yaml

from tests.commands import succeeded
from thinwire.records import record

pytestmark = pytest.mark.slow

TUNING = """
title: Tiny
trials: TRIALS
repetitions: 2
datasets: [digits]
models: [cnn]
workers: [2]
space: {lr: [0.001, 1.0]}
"""
SCALED = '''"""SSGD with scaled gradients."""

from dataclasses import dataclass

import thinwire


class Method(thinwire.Method):
    tunes = {"scale": (0.5, 2.0)}

    @dataclass
    class Config:
        scale: float = 1.0  # factor of the gradients

    def sync_gradients(self):
        self.run.world.mean(self.run.gradients).wait()
        for gradient in self.run.gradients:
            gradient.mul_(self.config.scale)
'''


@pytest.fixture(scope="module")
def answer(project):
    project.write("methods/scaled.py", SCALED)
    project.suite("small", "{ssgd: , scaled: }", epochs=1)
    project.write("config/tuning/small.yaml", TUNING.replace("TRIALS", "3"))
    return succeeded(project.snakemake(suite="tuning/small"))


@pytest.fixture(scope="module")
def tuned(project, answer):
    return project


PLACE = "digits/cnn/w2"


def tuned_file(project):
    return yaml.safe_load((project.folder / "config/tuned/small.yaml").read_text())


def choices(project):
    return {label: chosen["at"][PLACE] for label, chosen in tuned_file(project)["methods"].items()}


def test_a_tuning_goes_from_its_ranges_to_choices_and_a_figure(tuned, answer):
    made, rows = tuned_file(tuned), pd.read_csv(tuned.folder / "config/tuned/small.csv")
    assert made["cost"]["runs"] == len(rows) == 12
    for label in ("ssgd", "scaled"):
        of_trial = rows[rows.method == label].groupby("trial")[["accuracy_percent", "lr"]].mean()
        choice = made["methods"][label]["at"][PLACE]
        assert choice["accuracy_percent"] == pytest.approx(of_trial.accuracy_percent.max())
        assert choice["recipe"] == {"optimizer": {"lr": pytest.approx(of_trial.lr[choice["trial"]])}}
        assert f"{label}: trial {choice['trial']}, accuracy" in answer.stdout
    assert list(rows.lr[:6]) == list(rows.lr[6:])
    assert (tuned.folder / "results/figures/tuning/small/best_so_far.pdf").stat().st_size > 5000
    assert not (tuned.folder / "results/summary.csv").exists()
    assert not tuned.is_planned("tuning/small")


def test_a_suite_trains_with_what_was_chosen(tuned):
    suite = (tuned.folder / "config/small.yaml").read_text()
    tuned.write("config/small.yaml", suite + "tuned: small\n")
    succeeded(tuned.snakemake(suite="small"))
    for label, choice in choices(tuned).items():
        run = record.read(tuned.folder / f"results/runs/small/digits/cnn/{label}/w2/seed0" / record.RUN)
        lr = choice["recipe"]["optimizer"]["lr"]
        assert run.cell["recipe"]["optimizer"]["lr"] == lr
        assert run.cell["evaluate_on"] == "test"
        if label == "scaled":
            assert run.cell["method"]["options"] == choice["options"]
    summary = pd.read_csv(tuned.folder / "results/summary.csv").set_index("method")
    assert summary.recipe_lr["ssgd"] == choices(tuned)["ssgd"]["recipe"]["optimizer"]["lr"]
    # The tuning itself does not depend on what it has chosen.
    assert not tuned.is_planned("tuning/small")


def test_one_more_trial_runs_only_that_one(tuned):
    tuned.write("config/tuning/small.yaml", TUNING.replace("TRIALS", "4"))
    answer = tuned.snakemake(suite="small")
    assert answer.returncode != 0
    assert "made from another config/tuning/small.yaml than there is now" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert tuned.trained("tuning/small") == ["scaled-t03", "ssgd-t03"]
    assert tuned_file(tuned)["cost"]["runs"] == 16


def test_the_best_trials_run_again_before_one_is_chosen(tuned):
    suite = (tuned.folder / "config/small.yaml").read_text().replace("tuned: small\n", "")
    again = "ssgd_again: {use: ssgd, tuned_again: true}, scaled:"
    assert "scaled:" in suite
    tuned.write("config/small.yaml", suite.replace("scaled:", again))
    tuned.write("config/tuning/small.yaml", TUNING.replace("TRIALS", "4") + "finalists: 1\n")
    answer = succeeded(tuned.snakemake(suite="tuning/small"))
    rows = pd.read_csv(tuned.folder / "config/tuned/small.csv")
    for label in ("ssgd", "ssgd_again", "scaled"):
        runs = rows[rows.method == label].groupby("trial").size()
        assert sorted(runs) == [2, 2, 2, 4]
        assert f"{label}: trial {runs.idxmax()}, accuracy" in answer.stdout
        assert choices(tuned)[label]["trial"] == runs.idxmax()
    assert not tuned.is_planned("tuning/small")
