"""Tracking as a step of the pipeline, which can never fail because of it."""

import pytest

from tests.tracking.conftest import warnings_of
from tests.workflow.conftest import Project
from thinwire.publish.wandb.replay import NOTE

pytestmark = pytest.mark.slow


@pytest.fixture
def project(tmp_path):
    project = Project(tmp_path)
    project.suite("tiny", "{ssgd: {}}", epochs=1)
    return project


def test_the_pipeline_replays_its_runs_and_works_without_a_client(project):
    runs = project.folder / "results/wandb/thinwire-tiny"
    project.write("wandb.py", "raise ImportError('no wandb here')\n")
    answer = project.snakemake()
    assert answer.returncode == 0, answer.stderr
    (line,) = warnings_of(answer.stdout + answer.stderr)
    assert line == "thinwire: W&B: no wandb here: the runs of tiny are not replayed"
    assert (runs / NOTE).read_text() == "not replayed: no wandb here\n"
    assert (project.folder / "results/tables/tiny/summary.csv").is_file()
    (project.folder / "wandb.py").unlink()
    (runs / NOTE).unlink()
    answer = project.snakemake()
    assert answer.returncode == 0, answer.stderr
    assert warnings_of(answer.stdout + answer.stderr) == []
    assert (runs / NOTE).read_text() == "1 of 1 runs\n"
    assert len(list(runs.glob("offline-run-*/*.wandb"))) == 1
