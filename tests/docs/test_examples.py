"""Every method that a page shows runs, and sends what the page says; every model trains."""

import json
import re
from contextlib import suppress
from dataclasses import replace

import pytest
import torch

from tests import small
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
    refused = re.search(r"Its options (.*?) are refused:\n\n```text\n(.*?)```", text, re.DOTALL)
    (content,) = (c for _, c in pages.blocks(text) if "__post_init__" in c)
    method = load(content)
    said = []
    for options in re.findall(r"`(\{.*?\})`", refused[1]):
        with pytest.raises(Problems) as caught:
            resolve(method, json.loads(options))
        said.append(str(caught.value))
    assert said == refused[2].splitlines()


def table_of(heading):
    """The rows of the table of docs/contract.md whose first column has this heading."""
    tables = pages.tables((ROOT / "docs/contract.md").read_text())
    (found,) = (table[1:] for table in tables if table[0][0] == heading)
    return found


def test_every_check_of_the_contract_stands_in_its_table():
    rows = {f"test_{row[0].strip('`')}": row[1] for row in table_of("check")}
    assert rows.keys() == CHECKS.keys()
    assert f"{LEAST_ACCURACY_PERCENT} % accuracy on digits" in rows["test_learns"]


def test_every_verb_stands_in_the_table_of_verbs():
    public = {name for name, value in vars(Channel).items() if callable(value) and name[0] != "_"}
    assert set(re.findall(r"`(\w+)`", " ".join(row[0] for row in table_of("verb")))) == public - {"meter"}


def test_every_hook_stands_in_the_table_of_hooks():
    hooks = {
        name for name, value in vars(Method).items() if callable(value) or isinstance(value, classmethod)
    }
    hooks = {name for name in hooks if name[0] != "_" and name != "Config"} | {"__init__"}
    assert {row[0].strip("`") for row in table_of("hook")} == hooks
