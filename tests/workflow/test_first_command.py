"""README's first command makes every file that README names under `results/`."""

import re
import shlex
import shutil

import pytest
import yaml

from tests.commands import succeeded
from thinwire.plugins import ROOT

pytestmark = pytest.mark.slow

README = (ROOT / "README.md").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()
SHORT_PREPARATIONS = {"predictor_epochs": 1, "recorded_epochs": 2, "windows": 200, "forecaster_steps": 5}


@pytest.fixture
def checkout(project):
    """The copy, with the demo's suites cut to seconds and all that the paper reads."""
    for name in ("paper", "docs", "benchmarks/records"):
        shutil.copytree(ROOT / name, project.folder / name)
    reference, results = ROOT / "results/reference", project.folder / "results"
    # The paper quotes it; it depends on no suite and takes a minute, and its rule has tests of its own.
    for path in ("tables/hsgd_ratio.csv", "figures/hsgd_ratio.pdf", "figures/hsgd_ratio.png"):
        (results / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(reference / path, results / path)
    cut(project, "demo", epochs=3, repetitions=1)
    # The command chooses some of its repetitions, as it does in the real suite.
    cut(project, "claims/mp2_digits", epochs=2, repetitions=2)
    return project


def cut(project, name, epochs, repetitions):
    """Cut a suite to seconds, with all its methods."""
    path = project.folder / f"config/{name}.yaml"
    suite = yaml.safe_load(path.read_text())
    suite.pop("tuned", None)  # for its own number of epochs
    suite["repetitions"], suite["recipe"]["epochs"] = repetitions, epochs
    for entry in filter(None, suite["methods"].values()):
        entry.pop("epochs", None)
        options = entry.get("options", {})
        options |= {key: value for key, value in SHORT_PREPARATIONS.items() if key in options}
        options |= {key: 1 for key in ("warmup_epochs", "cooldown_epochs") if key in options}
        options |= {"warmup_densities": [0.25]} if "warmup_densities" in options else {}
        options |= {"warmup_steps": 4} if "warmup_steps" in options else {}
    if "simulate" in suite:
        suite["workers"] = [suite["workers"][-1]]
        suite["simulate"]["steps"] = 20
    path.write_text(yaml.safe_dump(suite, sort_keys=False))


def test_every_file_that_the_readme_names_is_there(checkout):
    (command,) = re.findall(r"^demo: setup\n\t@\$\(bin\)/(snakemake .*)$", MAKEFILE, re.MULTILINE)
    succeeded(checkout.python(*shlex.split(command.replace("repetitions=3", "repetitions=1"))))
    named = set(re.findall(r"`(results/[^`*]+)`", README + MAKEFILE)) - {"results/reference/"}
    said = re.findall(r"(?<= )results/[\w./]+", MAKEFILE[: MAKEFILE.index("\nfigures:")])
    assert "results/paper.pdf" in named
    assert "results/index.html" in said
    assert [path for path in sorted({*named, *said}) if not (checkout.folder / path).exists()] == []
