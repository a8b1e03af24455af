"""The pipeline in miniature: it goes from nothing to figures, and repeats only what changed."""

import os
import shutil

import pandas as pd
import pytest

from tests.commands import python, succeeded
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


# A baseline, two others, one with a preparation, and one that is skipped on one node.
FEW = "{ssgd: , local_sgd: , top_k: , mp2: {options: {predictor_epochs: 1, bsp_workers: 2}}, daso: }"
# A dry run, after what it does for suites that are simulated. It ends with the modules that it has imported.
DRY_RUN = """
import atexit, sys
from snakemake.cli import main
from thinwire.pipeline import grid, outputs
(demo,) = outputs.simulations(grid.read(["demo"], with_options=False)).values()
assert demo.data and demo.prepared == [] and demo.fingerprint
atexit.register(lambda: print("MODULES", *sys.modules))
main(["-n", "--quiet", "host", "--config", "suites=tiny"])
"""
# What takes seconds to import, and only jobs need.
OF_JOBS = {"torch", "scipy", "matplotlib", "seaborn", "statsmodels", "typst", "wandb"}


@pytest.fixture(scope="module")
def first(project):
    """What the first call of the pipeline has printed."""
    project.suite("tiny", FEW)
    return succeeded(project.snakemake())


@pytest.fixture(scope="module")
def made(project, first):
    return project


def require_complete(project, suite, skipped, prepared):
    """The tables, figures and records of a suite are there, and say the same; gives its summary."""
    results = project.folder / "results"
    summary = pd.read_csv(results / "summary.csv")
    assert summary.method[0] == "ssgd"
    assert {m for m, s in zip(summary.method, summary.status) if s == "skipped"} == skipped
    done = summary[~summary.method.isin(skipped)]
    assert set(done.status) == {"done"}
    assert set(done.kind) == {"inprocess"}
    assert [column for column in done if "second" in column] == ["preparation_seconds"]
    assert sorted(done.method[done.preparation_seconds.notna()]) == prepared
    assert len(pd.read_parquet(results / "curves.parquet")) == len(done) * 2
    table = pd.read_csv(results / f"tables/{suite}/summary.csv").set_index("method")
    assert table.total_reduction_percent["ssgd"] == 0
    assert 80 < table.total_reduction_percent["local_sgd"] < 100
    for method in done.method:
        run = record.read(results / f"runs/{suite}/digits/cnn/{method}/w2/seed0" / record.RUN)
        assert run.result.steps == run.total_steps
        total = run.result.traffic.payload_push_bytes + run.result.traffic.payload_pull_bytes
        assert table.total_bytes[method] == pytest.approx(total, rel=1e-5)
    assert (results / f"figures/{suite}/traffic.pdf").stat().st_size > 5000
    # The tiny suites test no claims.
    assert set(pd.read_csv(results / "claims.csv").verdict) == {"inconclusive", "not testable here"}
    return summary


def test_a_suite_goes_from_nothing_to_tables_and_figures(made):
    summary = require_complete(made, "tiny", skipped={"daso"}, prepared=["mp2"])
    assert sorted(summary.method) == ["daso", "local_sgd", "mp2", "ssgd", "top_k"]
    assert summary.set_index("method").preparation_payload_push_bytes["mp2"] > 0


def test_a_person_reads_about_runs_and_not_about_jobs(first):
    assert "5 of 5 runs" in first.stderr
    assert "tiny/digits/cnn/ssgd/w2/seed0: done, accuracy " in first.stderr
    assert "tiny/digits/cnn/daso/w2/seed0: skipped: " in first.stderr
    for words in ("jobid", "Select jobs", "steps ("):
        assert words not in first.stderr + first.stdout


@pytest.mark.slow
def test_only_what_changed_is_made_again_and_a_plan_imports_nothing_that_only_jobs_need(made):
    os.utime(made.folder / "methods/top_k.py")
    planned = succeeded(python("-c", DRY_RUN, folder=made.folder))
    assert "tiny: 5 cells: 4 done, 1 skipped\n" in planned.stderr
    assert "output: results/runs/" not in planned.stdout + planned.stderr
    loaded = set(planned.stdout.rpartition("MODULES")[2].split())
    assert "thinwire.pipeline.outputs" in loaded
    assert not loaded & OF_JOBS

    before = (made.folder / "methods/top_k.py").read_text()
    made.write("methods/top_k.py", before + "# another version\n")
    # As `cp -p` and `rsync -a` leave it.
    os.utime(made.folder / "methods/top_k.py", (1, 1))
    made.suite("tiny", FEW.replace("local_sgd:", "third: , local_sgd: {options: {period: 2}}"))
    made.write("methods/third.py", TEN_LINES)
    assert made.trained("tiny", "--until", "report_tiny") == ["local_sgd", "third", "top_k"]
    assert "| third " in (made.folder / "results/tables/tiny/summary.md").read_text()


@pytest.mark.slow
def test_what_was_made_before_is_found_again(made):
    made.suite("tiny", FEW)
    made.write("methods/top_k.py", (ROOT / "methods/top_k.py").read_text())
    (made.folder / "methods/third.py").unlink()
    assert made.snakemake("--until", "train_tiny-digits-w2").returncode == 0
    log = (made.folder / "results/logs/train/tiny/digits/cnn/w2/seed0.txt").read_text()
    assert log.endswith("5 of 5 runs were made before\n")


def test_a_bad_suite_is_one_sentence(made):
    made.write("config/bad.yaml", (made.folder / "config/tiny.yaml").read_text().replace("cnn", "cxx"))
    answer = made.snakemake(suite="bad")
    assert answer.returncode != 0
    assert "models.cxx: there is no model 'cxx'" in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.slow
def test_every_method_goes_through_the_pipeline_and_all_that_is_made_verifies(project):
    shutil.rmtree(project.folder / "results", ignore_errors=True)
    project.suite("every", EVERY)
    succeeded(project.snakemake(suite="every"))
    # One node, SGD, and a run that is shorter than the warm-ups.
    skipped = {"daso", "dgc", "multi_step_delay", "one_bit_adam", "power_sgd"}
    summary = require_complete(project, "every", skipped, prepared=["mp2", "wnn"])
    assert sorted(summary.method) == sorted(plugins.find("method"))
    pushed = summary.set_index("method").preparation_payload_push_bytes
    assert pushed["mp2"] > pushed["wnn"] == 0
    written = [p for name in ("tables", "figures") for p in (project.folder / "results" / name).rglob("*.*")]
    before = {path: path.read_bytes() for path in written}
    assert len(before) == 12
    assert project.python("thinwire", "report", "every").returncode == 0
    for path, content in before.items():
        assert path.read_bytes() == content, path.name
    answer = project.python("thinwire", "verify")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout == f"{len(summary)} records, {len(summary)} sound\n"
