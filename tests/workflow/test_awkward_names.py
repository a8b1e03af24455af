"""Names pass through Snakemake and the shell unchanged, or are refused before anything runs."""

import json

import pandas as pd
import pytest

from tests.commands import succeeded

pytestmark = pytest.mark.slow

ECHO = '''"""Two classes of random images, and an option that is text."""

from dataclasses import dataclass

import numpy as np

import thinwire
from thinwire.data.dataset import Raw


class Dataset(thinwire.Dataset):
    classes = 2
    shape = (1, 8, 8)
    licence = source = "none"

    @dataclass
    class Config:
        text: str = ""  # goes through the shell

    def fetch(self, place, download):
        assert (place / "here").exists(), place
        images = np.random.default_rng(0).integers(0, 256, (16, 1, 8, 8), np.uint8)
        labels = np.arange(16) % 2
        return Raw(images, labels, images, labels)
'''
SUITE = """
title: Awkward
seed: 1
repetitions: 1
datasets: {d+1.x: {use: echo, options: {text: TEXT}}}
models: {c++: {use: cnn, options: {width: 2}}}
methods: {ssgd+: {use: ssgd}, two.+: {use: ssgd}}
baseline: ssgd+
workers: [2]
recipe: {epochs: 1, batch: 4, batch_per: worker, optimizer: {lr: 0.1}}
"""
TEXT = 'it\'s "$HOME" `touch ran` {wildcards.x} & größe \\ 😀'


@pytest.fixture(scope="module")
def made(project, tmp_path_factory):
    """Two suites of awkward names, one of which is measured, run with a folder of an awkward name."""
    project.write("datasets/echo.py", ECHO)
    text = SUITE.replace("TEXT", json.dumps(TEXT, ensure_ascii=False))
    (project.folder / "config/a.b").mkdir()
    project.write("config/c++.yaml", text)
    project.write("config/a.b/c++.yaml", text + "transport: processes\n")
    parent = tmp_path_factory.mktemp("it's $(touch ran) {here}")
    (parent / "echo").mkdir()
    (parent / "echo" / "here").touch()
    succeeded(project.python("snakemake", "--config", "suites=c++,a.b/c++", f"data={parent}"))
    return project


def test_awkward_labels_go_all_the_way_to_the_tables(made):
    results = made.folder / "results"
    runs = pd.read_csv(results / "summary.csv")
    assert sorted(zip(runs.suite, runs.status)) == [("a.b/c++", "done")] * 2 + [("c++", "done")] * 2
    assert (results / "tables/c++/summary.md").exists()
    assert (results / "figures/a.b/c++/traffic.png").exists()


def test_options_of_a_data_set_reach_it_as_they_are_written(made):
    manifest = json.loads((made.folder / "results/data/d+1.x/manifest.json").read_text())
    assert manifest["options"] == {"text": TEXT}
    assert not list(made.folder.rglob("ran"))
