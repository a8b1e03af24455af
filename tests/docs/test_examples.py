"""Every method that a page shows runs, and sends what the page says; every model trains; the notebook runs.

A method, a model, a data set and a suite of one's own, added as the documentation says, break no test."""

import json
import os
import re
import shutil
import sys
from contextlib import suppress
from dataclasses import replace

import nbformat
import pytest
import torch
import yaml

from tests import small
from tests.commands import python, succeeded
from tests.contract.conftest import Subject, perform
from tests.contract.test_contract import LEAST_ACCURACY_PERCENT
from tests.contract.test_on_processes import EVERY_CHECK as CHECKS
from tests.docs import pages
from thinwire import plugins
from thinwire.api.channel import Channel
from thinwire.api.method import Method
from thinwire.base.errors import Problems
from thinwire.base.options import resolve
from thinwire.plugins import ROOT

VERBS = {
    "Gradients in a few bits, with error feedback": {"gather"},
    "Local SGD: step alone, average the weights every 16 steps": {"mean"},
}


def examples(kind="Method"):
    """The Python blocks of all pages that define a method, or a model, by page and docstring."""
    for path in pages.pages():
        for language, content in pages.blocks(path.read_text()):
            if language == "python" and f"class {kind}(" in content:
                title = re.match(r'"""(.*?)[.;(]? *["(]', content, re.DOTALL)[1].strip()
                yield pytest.param(title.rstrip("."), content, id=f"{pages.name(path)}: {title}")


@pytest.fixture
def load(tmp_path):
    """Make a method, or a model, of the text of a module."""

    def load(content, kind="method"):
        path = tmp_path / "example.py"
        path.write_text(content)
        return plugins.load_file(kind, path, f"thinwire_{kind}s.example")

    return load


class Short(Subject):
    """A method whose runs have one epoch of five steps."""

    def task(self, cluster, **changes):
        return super().task(cluster, **{"epochs": 1, **changes})


@pytest.mark.parametrize(("title", "content"), examples())
def test_an_example_keeps_the_contract_and_sends_by_the_verbs_that_it_shows(
    load, title, content, tmp_path, monkeypatch
):
    """Here all checks but `learns`, in short runs."""
    subject = Short("example", tmp_path / "example.py", load(content))
    for name, check in CHECKS.items():
        if name != "test_learns":
            with suppress(pytest.skip.Exception):
                perform(check, subject, monkeypatch, tmp_path, stop=3, optimizer="adamw")
    run = subject.trainer()
    run.train()
    assert {verb for _, verb, _ in run.workers[0].ledger.rows} == VERBS.get(title, {"mean"})


@pytest.mark.parametrize(("title", "content"), examples("Model"))
def test_a_model_of_an_example_trains(load, title, content):
    model = load(content, "model")
    grey = small.digits(24)
    colour = replace(
        grey,
        shape=(3, 8, 8),
        mean=grey.mean * 3,
        std=grey.std * 3,
        train_inputs=grey.train_inputs.repeat(1, 3, 1, 1),
        test_inputs=grey.test_inputs.repeat(1, 3, 1, 1),
    )
    build = lambda: model(resolve(model, {}), colour.shape, colour.classes)  # noqa: E731
    run = small.trainer(small.task(2, data=colour, build_model=build, epochs=1, batch=12), "ssgd")
    before = [weight.clone() for weight in run.workers[0].run.weights]
    run.train()
    assert run.step == 2
    assert all(not torch.equal(b, after) for b, after in zip(before, run.shipped()[0]))


def test_the_refused_options_of_contributing_are_refused_as_it_says(load):
    text = (ROOT / "CONTRIBUTING.md").read_text()
    refused = re.search(r"The example.s options (.*?) are refused:\n\n```text\n(.*?)```", text, re.DOTALL)
    (content,) = (c for _, c in pages.blocks(text) if "__post_init__" in c)
    method = load(content)
    said = []
    for options in re.findall(r"`(\{.*?\})`", refused[1]):
        with pytest.raises(Problems) as caught:
            resolve(method, json.loads(options))
        said.append(str(caught.value))
    assert said == refused[2].splitlines()


def table_of(heading):
    """The rows of the table about the contract whose first column has this heading."""
    text = "".join((ROOT / f"docs/{page}.md").read_text() for page in ("contract", "checks"))
    (found,) = (table[1:] for table in pages.tables(text) if table[0][0] == heading)
    return found


def test_every_check_of_the_contract_stands_on_its_page():
    rows = {row[0].strip("`"): row[1] for row in table_of("check")}
    text = " ".join((ROOT / "docs/checks.md").read_text().split())
    (named,) = re.findall(r"these say what they require: (.*?)\.", text)
    names = [*rows, *re.findall(r"`(\w+)`", named)]
    assert sorted(f"test_{name}" for name in names) == sorted(CHECKS)
    assert f"{LEAST_ACCURACY_PERCENT} % accuracy on digits" in rows["learns"]


def test_every_verb_stands_in_the_table_of_verbs():
    public = {name for name, value in vars(Channel).items() if callable(value) and name[0] != "_"}
    assert set(re.findall(r"`(\w+)`", " ".join(row[0] for row in table_of("verb")))) == public - {"meter"}


def test_every_hook_stands_in_the_table_of_hooks():
    hooks = {
        name for name, value in vars(Method).items() if callable(value) or isinstance(value, classmethod)
    }
    hooks = {name for name in hooks if name[0] != "_" and name != "Config"} | {"__init__"}
    assert {row[0].strip("`") for row in table_of("hook")} == hooks


NOTEBOOK = ROOT / "docs/quickstart.ipynb"


def cells(kind):
    return [cell for cell in nbformat.read(NOTEBOOK, as_version=4).cells if cell.cell_type == kind]


def test_the_notebook_is_short_and_has_no_outputs():
    assert len(cells("code")) + len(cells("markdown")) <= 15
    assert not any(cell.outputs or cell.execution_count for cell in cells("code"))


@pytest.mark.slow
def test_the_notebook_runs(tmp_path, monkeypatch):
    from nbclient import NotebookClient

    monkeypatch.setenv("PATH", f"{sys.prefix}/bin", prepend=os.pathsep)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=1200, resources={"metadata": {"path": str(tmp_path)}}).execute()
    (checked,) = said(notebook, "!thinwire check")
    assert "keeps the contract in one process" in checked["text"]
    (means,) = said(notebook, "import thinwire\n")
    assert all(
        f"\n{method} " in means["data"]["text/plain"] for method in ("mine", "mine_4", "ssgd", "top_k")
    )
    (figure,) = said(notebook, "import seaborn")
    assert "image/png" in figure["data"]
    *_, counted = said(notebook, "import pandas")
    # Of each of ten steps: a gradient of 650 numbers, of which a ring of two workers sends as much.
    assert "all_reduce  (0, 1)     10  26000     26000" in counted["data"]["text/plain"]


def said(notebook, beginning):
    """The outputs of the cell that begins so."""
    (cell,) = (cell for cell in notebook.cells if cell.source.startswith(beginning))
    return cell.outputs


COPIED = ("config", "datasets", "methods", "models", "pyproject.toml", "tests", "thinwire")
DATASET = '''"""Ten stripes, drawn with noise."""

import numpy as np

import thinwire
from thinwire.data.dataset import Raw


class Dataset(thinwire.Dataset):
    classes = 10
    shape = (1, 10, 10)
    licence = "CC0"
    source = "drawn here"

    def fetch(self, place, download):
        labels = np.arange(200) % 10
        images = np.random.RandomState(0).randint(0, 99, (200, 1, 10, 10), np.uint8)
        images[np.arange(200), 0, labels] += 100
        return Raw(images[:150], labels[:150], images[150:], labels[150:])
'''
SUITE = {
    "title": "Mine",
    "seed": 1,
    "repetitions": 2,
    "datasets": ["stripes"],
    "models": {"mine": {"use": "mobilenet"}},
    "methods": {"ssgd": None, "my_method": None},
    "workers": [2],
    "recipe": {"epochs": 1, "batch": 30, "batch_per": "run", "optimizer": {"lr": 0.1}},
}
# What goes over plug-ins or suites, as far as it is quick.
TESTS = (
    "tests/contract/test_contract.py::test_describes_itself",
    "tests/golden/test_trajectories.py::test_every_method_has_one",
    "tests/unit/test_models.py::test_every_model_has_a_width",
    "tests/unit/test_grid_subset.py::test_a_whole_suite_has_no_note",
    "tests/unit/test_suites.py::test_every_suite_is_valid_and_has_the_strong_baseline",
    "tests/unit/test_suites_exercise.py::test_every_method_is_exercised",
)


def example(page, words):
    """The Python block of a page that has these words."""
    blocks = pages.blocks((ROOT / page).read_text())
    (found,) = (text for language, text in blocks if language == "python" and words in text)
    return found


@pytest.fixture
def copy(tmp_path):
    """A copy of the project with a method, a model, a data set and a suite of one's own."""
    for name in COPIED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile
        copy(ROOT / name, tmp_path / name)
    (tmp_path / "methods/my_method.py").write_text(example("README.md", "class Method("))
    (tmp_path / "models/mobilenet.py").write_text(example("CONTRIBUTING.md", "class Model("))
    (tmp_path / "datasets/stripes.py").write_text(DATASET)
    (tmp_path / "config/mine.yaml").write_text(yaml.safe_dump(SUITE))
    return tmp_path


def test_what_is_added_as_the_documentation_says_breaks_no_test(copy):
    answer = succeeded(
        python("-m", "pytest", "-vv", "-n", "0", "-p", "no:cacheprovider", *TESTS, folder=copy)
    )
    assert "test_describes_itself[my_method] PASSED" in answer.stdout
    assert "[mine]" not in answer.stdout
