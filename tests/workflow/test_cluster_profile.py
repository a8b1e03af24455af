"""What `snakemake --profile slurm` reports without a Slurm, and before any job is sent."""

import dataclasses
import os
import re
import shutil

import pytest
import yaml
from snakemake_executor_plugin_slurm import ExecutorSettings

from tests.commands import python, succeeded
from tests.project import SUITES
from thinwire.config.suite import load
from thinwire.pipeline import grid
from thinwire.plugins import ROOT


@pytest.fixture(scope="module")
def snakemake(project, tmp_path_factory):
    """Runs it with almost no program in the path; `programs` are added, and do nothing."""
    shutil.copytree(ROOT / "slurm", project.folder / "slurm")
    project.suite("tiny", "{ssgd: }")

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
    # One data set, four models, four sizes, five repetitions.
    rules = set(re.findall(r"train_paper-time-imagenet_mini-w\d+n\d+ +20\n", answer.stdout))
    assert len(rules) == 4
    assert re.search(
        r"train, 20 jobs: \d+ nodes? with \d+ ranks and \d+ GPUs.* min\(360 \* attempt, 1440\) minutes",
        answer.stderr,
    )


def test_a_profile_without_an_account_is_reported_before_any_job(snakemake, project):
    refused = snakemake("--config", "suites=tiny", programs=("sbatch",))
    assert refused.returncode == 1
    assert "thinwire: slurm/config.yaml names no slurm_account: write yours there" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not (project.folder / "results").exists()


@pytest.mark.slow
def test_in_arrays_each_block_asks_for_its_own_nodes(project, tmp_path):
    """The plug-in gives all jobs of an array the resources of the first, and makes an array of each rule."""
    sizes = "[2, {workers: 4, nodes: 2}]"
    project.suite("sizes", "{ssgd: }", workers=sizes, more="transport: processes\n")
    suite = (project.folder / "config/sizes.yaml").read_text()
    project.write("config/sizes.yaml", suite.replace("repetitions: 1", "repetitions: 2"))
    profile = (ROOT / "slurm/config.yaml").read_text().replace('slurm_account: ""', "slurm_account: mine")
    (project.folder / "arrays").mkdir()
    project.write("arrays/config.yaml", profile.replace("retries: 9", "slurm-array-jobs: all"))
    # A Slurm that notes what is asked of it, and refuses it.
    for name in ("sacct", "sacctmgr", "scontrol", "sinfo", "squeue", "sshare"):
        (tmp_path / name).symlink_to("/bin/true")
    (tmp_path / "sbatch").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\nexit 1\n')
    (tmp_path / "sbatch").chmod(0o755)
    command = ("-m", "snakemake", "--profile", "arrays", "--config", "suites=sizes")
    ended = python(*command, folder=project.folder, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert ended.returncode == 1
    assert (tmp_path / "asked").exists(), ended.stderr
    options = (r"rule_train_sizes-digits-(\w+?)_wildcards", "--array=(.+?) ", "--nodes=(.) ", "--ntasks=(.) ")
    asked = [
        [re.search(option, line)[1] for option in options]
        for line in (tmp_path / "asked").read_text().splitlines()
        if "--array" in line
    ]
    assert sorted(asked) == [["w2", "1-2", "1", "2"], ["w4n2", "1-2", "2", "4"]]


def test_settings_that_the_profile_suggests_are_those_of_the_plug_in():
    suggested = re.findall(r"^# slurm-(\S+): ", (ROOT / "slurm/config.yaml").read_text(), re.MULTILINE)
    known = {field.name for field in dataclasses.fields(ExecutorSettings)}
    assert len(suggested) == 4
    assert {name.replace("-", "_") for name in suggested} <= known


def test_the_profile_runs_every_suite_for_gpus():
    """`snakemake --profile slurm` alone reproduces all results, and what it runs is valid together."""
    profile = yaml.safe_load((ROOT / "slurm/config.yaml").read_text())
    (chosen,) = [setting for setting in profile["config"] if setting.startswith("suites=")]
    names = chosen.removeprefix("suites=").split(",")
    for_gpus = [name for name in SUITES if load(name).device == "cuda"]
    # Suites with times of large networks are simulated, and nobody needs to train them.
    assert {name for name in for_gpus if load(name).without_data is None} <= set(names)
    assert grid.read(names, with_options=False).whole == set(names)
