"""What `snakemake --profile slurm` reports without a Slurm, and before any job is sent."""

import os
import re
import shutil

import pytest
import yaml

from tests.commands import python, succeeded
from tests.project import SUITES
from thinwire.config.suite import load
from thinwire.pipeline import grid
from thinwire.plugins import ROOT


@pytest.fixture(scope="module")
def snakemake(project, tmp_path_factory):
    """Runs it with almost no program in the path; `programs` are added, and do nothing."""
    shutil.copytree(ROOT / "slurm", project.folder / "slurm")

    def run(*arguments, programs=()):
        path = tmp_path_factory.mktemp("bin")
        for name in ("bash", "sh", "git", "which"):
            found = shutil.which(name)
            if found is not None:
                (path / name).symlink_to(found)
        for name in programs:
            (path / name).symlink_to("/bin/true")
        profile = ("snakemake", "--profile", "slurm")
        return python("-m", *profile, *arguments, folder=project.folder, PATH=os.fspath(path))

    return run


@pytest.mark.slow
def test_the_plan_of_the_paper_needs_no_slurm(snakemake):
    answer = succeeded(snakemake("-n", "--config", "suites=paper/time"))
    assert "cost: about" in answer.stderr
    # One data set, four models, four sizes, three repetitions.
    assert re.search(r"train_paper-time +48\n", answer.stdout + answer.stderr)
    assert re.search(
        r"train, 12 jobs: \d+ nodes? with \d+ ranks and \d+ GPUs.* 360 \* attempt minutes", answer.stderr
    )


def test_a_machine_without_slurm_is_one_sentence(snakemake):
    refused = snakemake("--config", "suites=tiny")
    assert refused.returncode == 1
    assert "thinwire: there is no Slurm here (sbatch is not found)" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_profile_without_an_account_is_reported_before_any_job(snakemake, project):
    refused = snakemake("--config", "suites=tiny", programs=("sbatch",))
    assert refused.returncode == 1
    assert "thinwire: slurm/config.yaml names no slurm_account: write yours there" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not (project.folder / "results").exists()


def test_the_profile_runs_every_suite_for_gpus():
    """`snakemake --profile slurm` alone reproduces all results, and what it runs is valid together."""
    profile = yaml.safe_load((ROOT / "slurm/config.yaml").read_text())
    (chosen,) = [setting for setting in profile["config"] if setting.startswith("suites=")]
    names = chosen.removeprefix("suites=").split(",")
    for_gpus = [name for name in SUITES if load(name).device == "cuda"]
    # Suites with times of large networks are simulated, and nobody needs to train them.
    assert {name for name in for_gpus if load(name).without_data is None} <= set(names)
    assert grid.read(names, with_options=False).whole == set(names)
