"""The pipeline in miniature: it goes from nothing to figures, and repeats only what changed."""

import os

import pandas as pd
import pytest

from tests.commands import succeeded
from tests.workflow.conftest import EVERY
from thinwire import plugins
from thinwire.plugins import ROOT
from thinwire.records import record

TEN_LINES = '''"""Averages every third step."""

import thinwire


class Method(thinwire.Method):
    def sync_weights(self):
        last = self.run.step + 1 == self.run.total_steps
        if last or self.run.step % 3 == 2:
            self.run.world.mean(self.run.weights, kind="weights").wait()
'''


@pytest.fixture(scope="module")
def first(project):
    """What the first call of the pipeline has printed."""
    return succeeded(project.snakemake())


@pytest.fixture(scope="module")
def made(project, first):
    return project


def test_a_suite_goes_from_nothing_to_tables_and_figures(made):
    results = made.folder / "results"
    summary = pd.read_csv(results / "summary.csv")
    assert summary.method[0] == "ssgd"
    assert sorted(summary.method) == sorted(plugins.find("method"))
    # One node, SGD, and a run that is shorter than the warm-ups.
    skipped = {"daso", "dgc", "multi_step_delay", "one_bit_adam", "power_sgd"}
    assert {m for m, s in zip(summary.method, summary.status) if s == "skipped"} == skipped
    summary = summary[~summary.method.isin(skipped)]
    assert set(summary.status) == {"done"}
    assert set(summary.kind) == {"inprocess"}
    assert [column for column in summary if "second" in column] == ["preparation_seconds"]
    prepared = summary[summary.preparation_seconds.notna()].set_index("method")
    assert sorted(prepared.index) == ["mp2", "wnn"]
    assert (
        prepared.preparation_payload_push_bytes["mp2"] > prepared.preparation_payload_push_bytes["wnn"] == 0
    )
    curves = pd.read_parquet(results / "curves.parquet")
    assert len(curves) == len(summary) * 2
    table = pd.read_csv(results / "tables/tiny/summary.csv").set_index("method")
    assert table.total_reduction_percent["ssgd"] == 0
    assert 80 < table.total_reduction_percent["local_sgd"] < 100
    for method in summary.method:
        run = record.read(results / f"runs/tiny/digits/cnn/{method}/w2/seed0" / record.RUN)
        assert run.result.steps == run.total_steps
        total = run.result.traffic.payload_push_bytes + run.result.traffic.payload_pull_bytes
        assert table.total_bytes[method] == pytest.approx(total, rel=1e-5)
    assert (results / "figures/tiny/traffic.pdf").stat().st_size > 5000
    # The tiny suite tests no claims.
    assert set(pd.read_csv(results / "claims.csv").verdict) == {"inconclusive", "not testable here"}


def test_a_person_reads_about_runs_and_not_about_jobs(first):
    every = len(plugins.find("method"))
    assert f"{every} of {every} runs" in first.stderr
    assert "tiny/digits/cnn/ssgd/w2/seed0: done, accuracy " in first.stderr
    assert "tiny/digits/cnn/daso/w2/seed0: skipped: " in first.stderr
    for words in ("jobid", "Select jobs", "steps ("):
        assert words not in first.stderr + first.stdout


def test_tables_and_figures_are_the_same_bytes_every_time(made):
    results = made.folder / "results"
    before = {p: p.read_bytes() for name in ("tables", "figures") for p in (results / name).rglob("*.*")}
    assert len(before) == 13
    assert made.python("thinwire", "report", "tiny").returncode == 0
    for path, content in before.items():
        assert path.read_bytes() == content, path.name


def test_all_that_it_made_verifies(made):
    """Runs that are done and skipped, of every method, with their preparations."""
    answer = made.python("thinwire", "verify")
    assert (answer.returncode, answer.stderr) == (0, "")
    every = len(plugins.find("method"))
    assert answer.stdout == f"{every} records, {every} sound\n"


def test_only_what_changed_is_made_again(made):
    os.utime(made.folder / "methods/top_k.py")
    assert not made.is_planned()

    before = (made.folder / "methods/top_k.py").read_text()
    made.write("methods/top_k.py", before + "# another version\n")
    # As `cp -p` and `rsync -a` leave it.
    os.utime(made.folder / "methods/top_k.py", (1, 1))
    made.suite("tiny", EVERY.format("  local_sgd: {options: {period: 2}}"))
    made.write("methods/third.py", TEN_LINES)
    assert made.trained() == ["local_sgd", "third", "top_k"]
    assert "| third " in (made.folder / "results/tables/tiny/summary.md").read_text()


def test_what_was_made_before_is_found_again(made):
    made.suite("tiny", EVERY.format(""))
    made.write("methods/top_k.py", (ROOT / "methods/top_k.py").read_text())
    (made.folder / "methods/third.py").unlink()
    assert made.snakemake().returncode == 0
    log = (made.folder / "results/logs/train/tiny/digits/cnn/w2/seed0.txt").read_text()
    assert log.endswith(
        f"{len(plugins.find('method'))} of {len(plugins.find('method'))} runs were made before\n"
    )


def test_a_bad_suite_is_one_sentence(made):
    made.write("config/bad.yaml", (made.folder / "config/tiny.yaml").read_text().replace("cnn", "cxx"))
    answer = made.snakemake(suite="bad")
    assert answer.returncode != 0
    assert "models.cxx: there is no model 'cxx'" in answer.stderr
    assert "Traceback" not in answer.stderr
