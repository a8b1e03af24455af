"""Files and options in YAML: what cannot be read is one sentence with its line."""

from argparse import Namespace
from pathlib import Path

import pytest
import yaml

from tests.bad_input.suites import GOOD, message
from thinwire.cli import plugins_and_suites as data_command
from thinwire.config import suite, yaml_file


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
def test_suite_that_cannot_be_read(tmp_path, content, words):
    path = tmp_path / "bad.yaml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    refusal = message(suite.read, path)
    assert refusal.startswith(str(path))
    assert words in refusal


@pytest.mark.parametrize(
    "make", [Path.mkdir, lambda path: path.symlink_to("nowhere")], ids=["folder", "link"]
)
def test_suite_that_is_no_file(make, tmp_path):
    make(tmp_path / "bad.yaml")
    assert f"{tmp_path / 'bad.yaml'} cannot be read (" in message(suite.read, tmp_path / "bad.yaml")


def test_anchors_merges_dates_and_numbers_without_a_point_are_read(tmp_path):
    path = tmp_path / "good.yaml"
    text = yaml.safe_dump({**GOOD, "methods": "..."}).replace("bad input", "2024-13-45")
    merged = "{ssgd: {options: &o {}}, second: &s {use: ssgd, options: *o}, third: {<<: *s, use: dgc}}"
    path.write_text(text.replace("lr: 0.1", "lr: 1e-2").replace("methods: '...'", f"methods: {merged}"))
    made = suite.read(path)
    uses = {label: entry.use for label, entry in made.methods.items()}
    assert uses == {"ssgd": None, "second": "ssgd", "third": "dgc"}
    assert made.title == "2024-13-45"
    assert made.recipe.optimizer.lr == 0.01


def test_a_key_that_a_merged_mapping_repeats_occurs_once():
    text = "a: {deep: &m {<<: &b {x: 1}, x: 2}}\ntop: {<<: *m}"
    assert yaml_file.parse(text, "") == {"a": {"deep": {"x": 2}}, "top": {"x": 2}}


def test_a_digest_that_looks_like_a_number_stays_text():
    content = {"digests": ["51e2ee3e1a40d15c", "1234e567", "12345", "1e-2"], "lr": 0.00001}
    assert yaml_file.parse(yaml_file.text_of(content), "") == content


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
    assert words in message(data_command.data_main, arguments)
    assert list(tmp_path.iterdir()) == []
