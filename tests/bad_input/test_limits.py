"""Suites and options beyond any limit are refused soon, with one short sentence."""

import copy
import math
import os
from argparse import Namespace
from pathlib import Path

import pytest
import yaml

from tests.bad_input.test_bad_input import GOOD, changed, message
from thinwire.cli import data
from thinwire.config import expand_suite, suite, yaml_file


@pytest.fixture
def config(tmp_path, monkeypatch):
    """A folder for suites that stands in for the project's."""
    monkeypatch.setattr(suite, "ROOT", tmp_path)
    (tmp_path / "config").mkdir()
    return tmp_path / "config"


def refusal(function, *args) -> str:
    """The refusal: one readable line, at most a screen long."""
    text = message(function, *args)
    assert len(text) < 2000
    assert text.isprintable()
    return text


def laughs(levels: int, own: str, merged: str) -> str:
    """Each line repeats the one before nine times."""
    lines = [f"a0: &a0 {own}"]
    lines += [f"a{i}: &a{i} {merged.format(', '.join([f'*a{i - 1}'] * 9))}" for i in range(1, levels)]
    return "\n".join(lines)


def chain(levels: int) -> str:
    """Each line has the one before inside."""
    return "\n".join(["a0: &a0 [x]", *(f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, levels))])


TEXTS = {
    "aliases": (laughs(30, "[x]", "[{}]"), "50,000 values, with all aliases expanded"),
    "merges": (laughs(30, "{k: 1}", "{{<<: [{}]}}"), "50,000 values, with all aliases expanded"),
    "mappings": (laughs(30, "{k: 1}", "{{k: [{}]}}"), "50,000 values, with all aliases expanded"),
    "an alias inside of itself": ("a: &a [*a]", "line 1: this is not sound YAML (an alias is inside"),
    "a merge of itself": ("a: &a {<<: *a}", "an alias is inside"),
    "a deep chain of aliases": (chain(2000), "50 levels, with all aliases expanded"),
    "deep lists": ("a: " + "[" * 20_000, "line 1: it has more than 50 levels"),
    "deep mappings": ("a: " + "{a: " * 20_000, "line 1: it has more than 50 levels"),
    "deep blocks": ("\n".join(" " * i + "a:" for i in range(300)), "it has more than 50 levels"),
    "deep dashes": ("- " * 20_000, "it has more than 50 levels"),
    "a number of 5,000 digits": ("seed: " + "9" * 5000, "line 1: this is not sound YAML ("),
    "a hexadecimal of 5,000 digits": ("seed: 0x" + "f" * 5000, "line 1: it has a number beyond"),
    "a number of 65 bits": ("seed: 9223372036854775808", "a number beyond 9,223,372,036,854,775,807"),
    "a number below those of 64 bits": ("seed: -9223372036854775809", "a number beyond"),
    "no binary digits": ("seed: 0b_", "'0b_' cannot be read as int"),
    "a word that is called a number": ("seed: !!int x", "'x' cannot be read as int"),
    "a word that is called true": ("seed: !!bool x", "'x' cannot be read as bool"),
    "a set": ("seed: !!set {a, b}", "line 1: this is not sound YAML"),
    "binary data": ("seed: !!binary aGk=", "line 1: this is not sound YAML"),
    "an object": ("seed: !!python/object/apply:os.getcwd []", "line 1: this is not sound YAML"),
    "a list as key": ("? [a]\n: 1", "this is not sound YAML"),
    "half a character": (r'title: "\ud800"', r"line 1: this is not sound YAML (the text has the character"),
    "an escape": (r'title: "\e[31m"', "the text has the character"),
    "a NUL": (r'title: "a\0b"', "the text has the character"),
    "a NUL as it is": ("title: a\0b", "this is not sound YAML"),
    "a tab": ("a:\n\tb: 1", "line 2: this is not sound YAML"),
    "a key twice": ("a: 1\na: 2", "line 2: this is not sound YAML (the key 'a' occurs twice)"),
    "a number twice": ("{1: a, 0x1: b}", "the key 1 occurs twice"),
    "a long key twice": (f"{'k' * 900}: 1\n{'k' * 900}: 2", "kkk...kkk"),
    "too long": ("# " + "x" * yaml_file.MOST_BYTES, "more than 262,144 bytes"),
    "many keys": ("\n".join(f"key{i}: 1" for i in range(2_000)), "key0: there is no such key"),
    "a long key": ("k" * 900 + ": 1", "there is no such key"),
    "two documents": ("a: 1\n---\na: 2", "this is not sound YAML"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_yaml_beyond_the_limits(name, config):
    text, words = TEXTS[name]
    path = config / "bad.yaml"
    path.write_text(text)
    line = refusal(suite.load, "bad")
    assert line.startswith(str(path))
    assert words in line


def test_a_file_of_any_length_is_not_read_as_a_whole(config):
    with (config / "bad.yaml").open("wb") as file:
        file.truncate(2**40)
    assert "more than 262,144 bytes" in refusal(suite.load, "bad")


def test_aliases_and_merges_within_the_limits_are_what_they_are_for(config):
    text = yaml.safe_dump(GOOD | {"methods": None}).replace("methods: null", "")
    text += (
        "methods: {ssgd: &s {options: &o {}}, again: {<<: *s, use: ssgd}, third: {use: ssgd, options: *o}}"
    )
    (config / "good.yaml").write_text(text)
    assert [cell.method.label for cell in expand_suite.cells("good")] == ["ssgd", "again", "third"]


def test_a_date_is_text(config):
    (config / "good.yaml").write_text(yaml.safe_dump(GOOD).replace("bad input", "2024-13-45"))
    assert suite.load("good").title == "2024-13-45"


def not_utf_8(path: Path) -> None:
    path.write_bytes(b"title: \xff")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (os.mkfifo, "is not a file"),
        (Path.mkdir, "is not a file"),
        (lambda path: path.symlink_to("/dev/zero"), "is not a file"),
        (lambda path: path.symlink_to("nowhere"), "cannot be read"),
        (lambda path: path.symlink_to(path), "cannot be read"),
        (not_utf_8, "cannot be read"),
    ],
    ids=["FIFO", "folder", "device", "dangling link", "link to itself", "not UTF-8"],
)
def test_a_suite_that_is_no_file_of_text(make, words, config):
    make(config / "bad.yaml")
    assert words in refusal(suite.load, "bad")


LARGE = 10**9


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"repetitions": LARGE},
            "1,000,000,000 repetitions x 1 data sets x 1 models x 1 methods x 1 numbers",
        ),
        ({"repetitions": 2**63 - 1}, "cells: share them among suites of at most 20,000"),
        ({"workers": [LARGE]}, "workers.0.workers: input should be less than or equal to 100000"),
        ({"workers": [{"workers": 1, "nodes": LARGE}]}, "cannot be spread evenly"),
        ({"workers": list(range(1, 101)), "repetitions": 201}, "20,100 cells"),
        ({"recipe.epochs": LARGE}, "recipe.epochs: input should be less than or equal to 1000000"),
        ({"methods.ssgd": {"epochs": LARGE}}, "methods.ssgd.epochs: input should be less"),
        ({"hang_seconds": 1e300}, "hang_seconds: input should be less"),
        ({"checkpoint_every_seconds": 1e300}, "checkpoint_every_seconds: input should be less"),
        (
            {"models": {f"m{i}": {"use": "cnn"} for i in range(1001)}},
            "models: dictionary should have at most",
        ),
        ({"hang_seconds": math.inf}, "hang_seconds: input should be a finite number, not inf"),
        ({"recipe.optimizer.lr": math.nan}, "recipe.optimizer.lr: input should be a finite number, not nan"),
        (
            {"methods.hylo": {"options": {"kappa": math.inf}}},
            "methods.hylo.options.kappa: input should be a fin",
        ),
        (
            {"methods.hylo": {"options": {"kappa": math.nan}}},
            "methods.hylo.options.kappa: input should be a fin",
        ),
        ({"title": "two\nlines"}, "title: it must be one line"),
        ({"seed": "x" * 5000}, "seed: input should be a valid integer, not 'xxx"),
        ({"datasets": [["digits"]]}, "datasets: a list here holds names"),
        ({"datasets": [{"digits": None}]}, "datasets: a list here holds names"),
        ({"models": {"cnn": {"use": "x" * 5000}}}, "cannot be a label"),
        ({"methods": {"x" * 101: {"use": "ssgd"}}}, "cannot be a label: take at most 100 letters"),
        ({"methods": {"ssgd": None, "SSGD": {"use": "ssgd"}}}, "methods: ssgd and SSGD differ in upper and"),
        ({"methods": {1: None}}, "methods.1"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_suite_beyond_the_limits(changes, words, config):
    (config / "bad.yaml").write_text(yaml.safe_dump(changed(changes)))
    assert words in refusal(expand_suite.require_valid, "bad")


@pytest.mark.parametrize(
    "options",
    [
        '{"size": ' + "9" * 5000 + "}",
        '{"size": ' + "[" * 50_000,
        '{"size": 1' + "0" * 20 + "}",
        '{"size": NaN}',
        '{"size": .inf}',
        '{"size": 1e999}',
        '{"size": 16, "size": 32}',
        r'{"size": "\ud800"}',
        '{"size": "\0"}',
        "[3]",
        "size=3",
        "{1: 2}",
        "",
        "x" * 300_000,
    ],
    ids=lambda text: text[:20],
)
def test_options_on_the_command_line_have_the_same_limits(options, tmp_path):
    arguments = Namespace(place=None, label=None, dataset="imagenette", results=tmp_path, options=options)
    assert any(word in refusal(data.main, arguments) for word in ("--options", "size: "))
    assert list(tmp_path.iterdir()) == []


def test_the_sizes_of_the_suites_here_are_far_below_the_limits():
    for path in suite.suite_files():
        assert path.stat().st_size < yaml_file.MOST_BYTES / 20


def test_a_good_suite_at_the_limit_is_good(config):
    content = copy.deepcopy(GOOD) | {"repetitions": expand_suite.MOST_CELLS, "seed": yaml_file.LARGEST_NUMBER}
    (config / "good.yaml").write_text(yaml.safe_dump(content))
    assert len(expand_suite.cells("good")) == expand_suite.MOST_CELLS
