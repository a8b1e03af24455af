"""The workflow in a folder that is not the project's."""

import re
import shutil

import pytest

from tests.commands import python, succeeded
from thinwire.plugins import ROOT

# What `snakedeploy deploy-workflow` writes, with a path instead of a repository.
MODULE = """
configfile: "config/config.yaml"

module thinwire:
    snakefile:
        "{}"
    config:
        config

use rule * from thinwire
"""


@pytest.mark.slow
def test_a_module_trains_in_the_folder_of_its_user_with_the_project_that_it_names(project, tmp_path):
    project.suite("pair", "{ssgd: }", epochs=1, workers="[1, 2]")
    for path, text in (
        ("workflow/Snakefile", MODULE.format(project.folder / "workflow/Snakefile")),
        ("config/config.yaml", "suites: pair\n"),
    ):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(text)
    before = set(project.folder.rglob("*.*"))
    answer = succeeded(python("-m", "snakemake", "--cores", "2", folder=tmp_path))
    made = tmp_path / "results/runs/pair/digits/cnn"
    assert sorted(path.parts[-3] for path in made.rglob("run.json")) == ["w1", "w2"]
    assert "| ssgd " in (tmp_path / "results/tables/pair/summary.md").read_text()
    assert (tmp_path / "results/index.html").exists()
    assert {path for path in project.folder.rglob("*.*") if path.suffix != ".pyc"} <= before, answer.stderr
    again = succeeded(python("-m", "snakemake", "-n", folder=tmp_path))
    assert "Nothing to be done" in again.stdout + again.stderr


@pytest.mark.slow
@pytest.mark.parametrize("file", ["Snakefile", "workflow/Snakefile"])
def test_both_snakefiles_plan_the_same_jobs_in_any_folder(project, tmp_path, file):
    """With the profile of the project, which has the number of cores; a module has that of its user."""
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.yaml").write_text("suites: demo\nmethods: ssgd\nworkers: w4\n")
    (tmp_path / "module.smk").write_text(MODULE.format(project.folder / file))
    for snakefile, cores in ((project.folder / file, ()), ("module.smk", ("--cores", "1"))):
        planned = succeeded(
            python("-m", "snakemake", "-n", "--snakefile", str(snakefile), *cores, folder=tmp_path)
        )
        assert re.search(r"^train_demo-digits-w4 +3$", planned.stdout + planned.stderr, re.MULTILINE)
        assert re.search(r"^page +1$", planned.stdout + planned.stderr, re.MULTILINE)


@pytest.mark.slow
def test_the_test_case_of_the_catalog_is_planned_in_its_own_folder(project):
    """What `snakemake` runs stands in the `config/config.yaml` of the folder in which it works."""
    shutil.copytree(ROOT / ".test", project.folder / ".test", ignore=shutil.ignore_patterns("results"))
    planned = succeeded(project.python("snakemake", "-n", "--directory", ".test"))
    assert "demo: 2 cells: 2 missing" in planned.stderr
    assert (project.folder / ".test/.snakemake").is_dir()
