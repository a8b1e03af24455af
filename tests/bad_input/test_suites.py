"""What is wrong in a suite, or in options, is one sentence with the path of each value."""

import copy
import math
from argparse import Namespace
from pathlib import Path

import pytest
import yaml

from thinwire.cli import data as data_command
from thinwire.config import expand_suite, suite, yaml_file
from thinwire.errors import UserError

GOOD = {
    "title": "bad input",
    "seed": 1,
    "repetitions": 1,
    "datasets": ["digits"],
    "models": {"cnn": {"options": {"width": 8}}},
    "methods": {"ssgd": None},
    "workers": [2],
    "recipe": {"epochs": 1, "batch": 8, "batch_per": "worker", "optimizer": {"lr": 0.1}},
}


def changed(changes: dict) -> dict:
    """The good suite with other values at dotted paths."""
    content = copy.deepcopy(GOOD)
    for path, value in changes.items():
        *parents, last = path.split(".")
        place = content
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return content


@pytest.fixture
def write_suite(tmp_path, monkeypatch):
    """Write the suite `bad`, and have it found."""
    monkeypatch.setattr(suite, "ROOT", tmp_path)
    (tmp_path / "config").mkdir()

    def write(content: dict | str | bytes) -> Path:
        path = tmp_path / "config" / "bad.yaml"
        if isinstance(content, dict):
            content = yaml.safe_dump(content)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def message(function, *args) -> str:
    """What a function refuses with: one line that can be shown."""
    with pytest.raises(UserError) as caught:
        function(*args)
    text = str(caught.value)
    assert text.isprintable()
    assert len(text) < 2000, "it fills a screen"
    return text


def test_the_good_suite_is_good(write_suite):
    write_suite(GOOD)
    expand_suite.require_valid("bad")
    assert len(expand_suite.cells("bad")) == 1


# Changes of the good suite, and the words of the refusal.
WRONG = """
colour: 1 => colour: there is no such key
recipe.optimizer.rate: 1 => recipe.optimizer.rate: there is no such key
seed: one => seed: | integer | not 'one'
seed: -1 => seed: | not -1
repetitions: true => repetitions: | integer
workers: [0] => workers.0.workers: | not 0
workers: [{workers: 6, nodes: 4}] => workers.0: | 6 workers | 4 nodes
workers: [3], recipe.batch_per: run => batch of 8 | 3 workers
device: tpu => device: | not 'tpu'
transport: pigeons => transport: | not 'pigeons'
transport: processes, backend: nccl => nccl carries nothing between CPUs
backend: gloo => backend: | transport: processes
transport: processes, hang_seconds: 0 => hang_seconds:
recipe.optimizer.lr: 0 => recipe.optimizer.lr: | not 0
recipe.optimizer: {lr: 0.1, momentum: 0.0, nesterov: true} => recipe.optimizer: | nesterov | momentum
recipe.schedule: {name: step, milestones: [4, 2]} => recipe.schedule: | milestones must rise
recipe.schedule: {name: step} => recipe.schedule: | milestones
recipe.schedule: {name: cosine, milestones: [2]} => recipe.schedule: | milestones
methods: {a/b: null} => methods: | 'a/b' cannot be a label
models: {small one: {use: cnn}} => models: | 'small one' cannot be a label
workers: [2, {workers: 2}] => workers: | w2 is listed twice
datasets: [digits, digits] => datasets: | digits is listed twice
recipe.epochs: 2, recipe.schedule: {name: step, milestones: [1, 7]} => recipe: | milestones [1, 7] | 2 epochs
recipe.optimizer: {lr: 0.1, trust: 0.1} => recipe.optimizer: | trust | lars
recipe.optimizer: {name: lars, lr: 0.1, trust: -0.1} => optimizer.trust: | not -0.1
recipe.optimizer: {name: lars, lr: 0.1, nesterov: true} => recipe.optimizer: | nesterov belongs to sgd
recipe.optimizer: {name: adam, lr: 0.1, momentum: 0.9}
    => recipe.optimizer: | momentum belongs to sgd and lars, not to adam
recipe.optimizer: {lr: 0.1, beta1: 0.9} => recipe.optimizer: | beta1 | adam, not to sgd
recipe.mixup: -1.0 => recipe.mixup: | not -1.0
recipe.schedule: {name: exponential} => recipe.schedule: | exponential needs a factor
recipe.schedule: {name: cosine, factor: 0.5}
    => recipe.schedule: | factor belongs to step and exponential and plateau, not to cosine
recipe.schedule: {patience: 3} => recipe.schedule: | patience belongs to plateau, not to cosine
recipe.schedule: {name: plateau, patience: -1} => recipe.schedule.patience: | not -1
recipe.schedule: {name: plateau, threshold: 1} => recipe.schedule.threshold: | not 1
recipe.schedule: {name: plateau, factor: 1.5} => recipe.schedule.factor: | not 1.5
recipe.schedule: {power: 3.0} => recipe.schedule: | power belongs to polynomial
methods.ssgd: {epochs: 0} => methods.ssgd.epochs: | not 0
models.cnn: {epochs: 2} => models.cnn: epochs belong to a method
methods.ssgd: {reading: contigous}
    => methods.ssgd.reading: there is no reading 'contigous' | the nearest is contiguous
recipe.reading: stride => recipe.reading: | the nearest is strided
models.cnn: {reading: random} => models.cnn: a reading belongs to a method
recipe.epochs: 3, recipe.schedule: {name: step, milestones: [1]}, methods.ssgd: {epochs: 1}
    => methods.ssgd.epochs: milestones [1] | 1 epochs
methods.ssgd: {recipe: {optimizer: {nesterov: true}}}
    => methods.ssgd.recipe.optimizer.nesterov: there is no such key
methods.ssgd: {recipe: {epochs: 2}} => methods.ssgd.recipe.epochs: there is no such key
methods.ssgd: {recipe: {optimizer: {lr: 0}}} => methods.ssgd.recipe.optimizer.lr: | not 0
recipe.optimizer: {name: adam, lr: 0.1}, methods.ssgd: {recipe: {optimizer: {momentum: 0.5}}}
    => methods.ssgd.recipe: | momentum belongs to sgd and lars, not to adam
methods.ssgd: {batch: 0} => methods.ssgd.batch: | not 0
recipe.batch_per: run, methods.ssgd: {batch: 9}
    => methods.ssgd.batch: a batch of 9 for the run cannot be shared evenly by 2 workers
methods.ssgd: {optimizer: {lr: 0.1, trust: 0.1}}
    => methods.ssgd.optimizer: | trust belongs to lars, not to sgd
methods.ssgd: {optimizer: {name: adam, lr: 0.1}, recipe: {optimizer: {momentum: 0.5}}}
    => methods.ssgd.recipe: | momentum belongs to sgd and lars, not to adam
methods.ssgd: {prefetch: 1} => methods.ssgd.prefetch: | boolean, not 1
models.cnn: {prefetch: true} => models.cnn: prefetch belongs to a method
models.cnn: {batch: 2} => models.cnn: a batch belongs to a method
datasets: {digits: {optimizer: {lr: 1.0}}} => datasets.digits: an optimizer belongs to
models.cnn: {recipe: {}} => models.cnn: a recipe belongs to a method
models.cnn: {prepare_from: {seed: 0}} => models.cnn: prepare_from belongs to a method
methods.mp2: {prepare_from: {}} => methods.mp2.prepare_from: it names no cell
methods.mp2: {prepare_from: {seed: -1}} => methods.mp2.prepare_from.seed: | not -1
methods.mp2: {prepare_from: {model: cnn}} => methods.mp2.prepare_from.model: there is no such key
tuned: a b => tuned: | 'a b' cannot be the name of a suite
simulate: {} => simulate.clusters: it is missing
simulate: {clusters: []} => simulate.clusters:
simulate: {clusters: [wan_100m], rates_gbit_per_second: [0]} => simulate.rates_gbit_per_second.0: | not 0
simulate: {clusters: [wan_100m], workers: [2, 3]}, recipe.batch_per: run
    => simulate.workers: a batch of 8 | 3 workers
leave_out: [dgc, dgc] => leave_out: | dgc is listed twice
seed: 100000000000000000000 => seed: input should be less than 9223372036854775808
workers: [1000000000] => workers.0.workers: input should be less than or equal to 100000
workers: [{workers: 1, nodes: 1000000000}] => cannot be spread evenly
recipe.epochs: 1000000000 => recipe.epochs: input should be less than or equal to 1000000
methods.ssgd: {epochs: 1000000000} => methods.ssgd.epochs: input should be less
hang_seconds: 1.0e+300 => hang_seconds: input should be less
hang_seconds: .inf => hang_seconds: input should be a finite number, not inf
checkpoint_every_seconds: 1.0e+300 => checkpoint_every_seconds: input should be less
recipe.optimizer.lr: .nan => recipe.optimizer.lr: input should be a finite | not nan
datasets: [[digits]] => datasets: a list here holds names
methods: {1: null} => methods.1
colour: 1, seed: one, recipe.epochs: 0, workers: [{workers: 3, nodes: 2}]
    => colour: | seed: | recipe.epochs: | workers.0:
"""


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        *(
            (yaml.safe_load(f"{{{line.split(' => ')[0]}}}"), line.split(" => ")[1].split(" | "))
            for line in WRONG.replace("\n    =>", " =>").strip().splitlines()
        ),
        ({"seed": "x" * 5000}, ("seed: input should be a valid integer, not 'xxx",)),
        ({"models": {f"m{i}": {"use": "cnn"} for i in range(1001)}}, ("models: dictionary should have at",)),
        ({"title": "two\nlines"}, ("title: it must be one line",)),
        ({"models": {"cnn": {"use": "x" * 5000}}}, ("cannot be a label",)),
        ({"methods": {"x" * 101: {"use": "ssgd"}}}, ("cannot be a label: take at most 100 letters",)),
    ],
    ids=lambda value: "+".join(map(str, value)) if isinstance(value, dict) else "",
)
def test_invalid_suite(write_suite, changes, words):
    path = write_suite(changed(changes))
    refusal = message(suite.read, path)
    assert refusal.startswith(f"{path}: ")
    for word in words:
        assert word in refusal


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", ": a suite is a mapping; config/README.md shows its keys"),
        ("- a\n- b\n", ": a suite is a mapping; config/README.md shows its keys"),
        ("title: x\nseed: [1, 2\n", ", line 3: this is not sound YAML ("),
        ("a: b: c\n", ", line 1: this is not sound YAML ("),
        ("a:\n\tb: 1", ", line 2: this is not sound YAML ("),
        ("a: \x00\n", ": this is not sound YAML ("),
        (b"title: \xff\xfe\n", ": this is not sound YAML ("),
        ("a: 1\n---\na: 2", ", line 2: this is not sound YAML ("),
        ("a: 1\nb: {c: 1,\nc: 2}", ", line 3: this is not sound YAML (the key 'c' occurs twice)"),
        (f"{'k' * 900}: 1\n{'k' * 900}: 2", "kkk...kkk"),
        ("? [a]\n: 1", ", line 1: this is not sound YAML ("),
        (r'title: "\ud800"', ", line 1: this is not sound YAML ("),
        ("seed: 0b_", ": this is not sound YAML ("),
        ("seed: !!bool x", ": this is not sound YAML ("),
        ("seed: " + "9" * 5000, ": this is not sound YAML ("),
        ("seed: !!python/object/apply:os.getcwd []", ", line 1: this is not sound YAML ("),
        ("seed: 1", "title: it is missing"),
        ("\n".join(f"key{i}: 1" for i in range(2_000)), "key0: there is no such key"),
        ("k" * 900 + ": 1", "there is no such key"),
    ],
    ids=lambda value: repr(value[:20]),
)
def test_suite_that_cannot_be_read(write_suite, content, words):
    path = write_suite(content)
    refusal = message(suite.read, path)
    assert refusal.startswith(str(path))
    assert words in refusal


@pytest.mark.parametrize(
    "make", [Path.mkdir, lambda path: path.symlink_to("nowhere")], ids=["folder", "link"]
)
def test_suite_that_is_no_file(make, tmp_path):
    make(tmp_path / "bad.yaml")
    assert f"{tmp_path / 'bad.yaml'} cannot be read (" in message(suite.read, tmp_path / "bad.yaml")


def test_anchors_merges_dates_and_numbers_without_a_point_are_read(write_suite):
    text = (
        yaml.safe_dump(GOOD | {"methods": None})
        .replace("methods: null", "")
        .replace("bad input", "2024-13-45")
    )
    text = text.replace("lr: 0.1", "lr: 1e-2")
    text += (
        "methods: {ssgd: {options: &o {}}, second: &s {use: ssgd, options: *o}, third: {<<: *s, use: dgc}}"
    )
    made = suite.read(write_suite(text))
    assert {label: entry.use for label, entry in made.methods.items()} == {
        "ssgd": None,
        "second": "ssgd",
        "third": "dgc",
    }
    assert made.title == "2024-13-45"
    assert made.recipe.optimizer.lr == 0.01


def test_a_key_that_a_merged_mapping_repeats_occurs_once():
    text = "a: {deep: &m {<<: &b {x: 1}, x: 2}}\ntop: {<<: *m}"
    assert yaml_file.parse(text, "") == {"a": {"deep": {"x": 2}}, "top": {"x": 2}}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"methods.nothing": None}, ("methods.nothing:", "no method 'nothing'", "ssgd")),
        ({"methods.label": {"use": "nothing"}}, ("methods.label:", "no method 'nothing'")),
        ({"models.nothing": None}, ("models.nothing:", "no model 'nothing'", "cnn")),
        ({"datasets": ["nothing"]}, ("datasets.nothing:", "no dataset 'nothing'", "digits")),
        ({"baseline": "top_k"}, ("baseline:", "'top_k'", "not one of the methods")),
        (
            {"methods.late": {"use": "ssgd", "options": {"overlap": False}}, "baseline": "late"},
            ("baseline: 'late' is an ablation of its method (overlap)", "label without this option"),
        ),
        ({"methods.SSGD": {"use": "ssgd"}}, ("methods: ssgd and SSGD differ in upper and",)),
        ({"repetitions": 10**9}, ("1,000,000,000 repetitions x 1 data sets x 1 models x 1 methods x 1 num",)),
        ({"repetitions": 10**30}, ("cells: share them among suites of at most 20,000",)),
        ({"workers": list(range(1, 101)), "repetitions": 201}, ("20,100 cells",)),
        ({"methods.*": {"options": {"density": 0.1}}}, ("methods.*:", "takes no keys")),
        ({"methods.*": {"epochs": 2}}, ("methods.*:", "takes no keys")),
        ({"leave_out": ["dgc"]}, ("leave_out:", "no '*'")),
        ({"methods.*": None, "leave_out": ["nothing"]}, ("leave_out:", "no method 'nothing'", "ssgd")),
        (
            {"methods.nothing": None, "models.none": None, "datasets": ["no"], "baseline": "nobody"},
            ("methods.nothing:", "models.none:", "datasets.no:", "baseline:"),
        ),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else "",
)
def test_unknown_plugin_in_a_suite(write_suite, changes, words):
    path = write_suite(changed(changes))
    refusal = message(expand_suite.cells, "bad")
    assert refusal.startswith(f"{path}: ")
    for word in words:
        assert word in refusal


@pytest.mark.parametrize(
    ("kind", "label", "options", "words"),
    [
        ("methods", "top_k", {"density": 0}, ("density:", "greater than 0", "not 0")),
        ("methods", "top_k", {"density": 1.5}, ("density:", "less than or equal to 1", "not 1.5")),
        ("methods", "top_k", {"density": "much"}, ("density:", "number", "not 'much'")),
        ("methods", "top_k", {"memory": "long"}, ("memory:", "'gradient'", "not 'long'")),
        ("methods", "top_k", {"densty": 0.1}, ("densty: there is no such key", "density", "memory")),
        ("methods", "local_sgd", {"period": 0}, ("period:", "not 0")),
        ("methods", "local_sgd", {"period": 2.5}, ("period:", "integer", "not 2.5")),
        ("methods", "local_sgd", {"period": True}, ("period:", "integer")),
        ("methods", "hylo", {"kappa": math.inf}, ("kappa:", "finite number, not inf")),
        ("methods", "hylo", {"kappa": 0.0}, ("kappa:", "greater than 0", "not 0.0")),
        ("methods", "hylo", {"conv_threshold": 0}, ("conv_threshold:", "not 0")),
        ("methods", "hylo", {"linear_threshold": -5}, ("linear_threshold:", "not -5")),
        ("methods", "hylo", {"least_rate": 1.1}, ("least_rate:", "not 1.1")),
        ("methods", "hylo", {"exponent": -0.5}, ("exponent:", "not -0.5")),
        ("methods", "mp2", {"pushed_stages": 0}, ("pushed_stages:", "not 0")),
        ("methods", "wnn", {"windows": 5}, ("windows:", "not 5")),
        ("methods", "mp2", {"images_share": 1.5}, ("images_share:", "not 1.5")),
        ("methods", "wnn", {"interval_epochs": 0.0}, ("interval_epochs:", "not 0.0")),
        ("methods", "wnn", {"bias_rule": "none"}, ("bias_rule:", "'published'", "not 'none'")),
        ("models", "cnn", {"width": "wide"}, ("width:", "integer", "not 'wide'")),
        ("models", "lenet", {"padding": 3}, ("padding:", "not 3")),
        ("models", "cnn", {"colour": 1}, ("colour: there is no such key", "width")),
    ],
)
def test_invalid_option(write_suite, kind, label, options, words):
    path = write_suite(changed({f"{kind}.{label}": {"options": options}}))
    refusal = message(expand_suite.require_valid, "bad")
    assert refusal.startswith(f"{path}: {kind}.{label}.options.{words[0]}")
    assert refusal.count(f"{kind}.{label}.options.") == 1
    for word in words:
        assert word in refusal


def test_invalid_options_come_in_one_message(write_suite):
    often = {"use": "local_sgd", "options": {"period": 0}}
    write_suite(changed({"methods.often": often, "models.cnn": {"options": {"width": "wide", "wdth": 1}}}))
    refusal = message(expand_suite.require_valid, "bad")
    for path in ("methods.often.options.period:", "models.cnn.options.width:", "models.cnn.options.wdth:"):
        assert path in refusal


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ('{"size": 1' + "0" * 20 + "}", "size: input should be less than or equal to 512, not 1000"),
        ('{"size": .inf}', "size: input should be a valid integer"),
        (
            '{"size": 16, "size": 32}',
            "--options, line 1: this is not sound YAML (the key 'size' occurs twice)",
        ),
        ('{"size": "\udcff"}', "--options: this is not sound YAML ("),
        ("[3]", "--options '[3]': options are a mapping"),
        ("size=3", "options are a mapping"),
        ("{1: 2}", "options are a mapping"),
        ("", "options are a mapping"),
        ("x" * 300_000, "options are a mapping"),
    ],
    ids=lambda text: text[:20],
)
def test_invalid_options_of_a_data_set(options, words, tmp_path):
    arguments = Namespace(place=None, label=None, dataset="imagenette", results=tmp_path, options=options)
    assert words in message(data_command.main, arguments)
    assert list(tmp_path.iterdir()) == []
