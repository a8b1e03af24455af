"""Archives in the official formats, from the user's folder to a trained run."""

import json

import numpy as np
import pandas as pd
import pytest

from tests import archives
from tests.commands import succeeded
from thinwire import plugins
from thinwire.records import record

pytestmark = pytest.mark.slow

TREE = '''"""A tree of two classes."""

from thinwire.data.image_folder import ImageFolder


class Dataset(ImageFolder):
    classes = 2
    licence = source = "none"
    how_to_get = "make it"
'''
SUITE = """
title: Kinds
seed: 1
repetitions: 1
datasets: {archive: {use: cifar10}, tree: {use: two_classes, options: {size: 24}}}
models: {cnn: {options: {width: 2}}}
methods: {ssgd: }
workers: [2]
recipe: {epochs: 1, batch: 4, batch_per: worker, reading: contiguous, mixup: 0.2, optimizer: {lr: 0.01}}
"""


@pytest.fixture(scope="module")
def made(project, tmp_path_factory):
    """A parent folder with one folder for each data set, and the pipeline's answer to it."""
    parent = tmp_path_factory.mktemp("data")
    for name in ("archive", "tree"):
        (parent / name).mkdir()
    known = plugins.get("dataset", "cifar10").load().archives[0]
    chance = np.random.default_rng(1)
    counts = {**{f"data_batch_{i}": 8 for i in range(1, 6)}, "test_batch": 10}
    members = {
        f"c/{member}.bin": archives.binary(
            chance.integers(0, 256, (count, 3, 32, 32), np.uint8), np.arange(count) % 10
        )
        for member, count in counts.items()
    }
    archives.tar(parent / "archive" / known.name, members)
    module = (project.folder / "datasets/cifar10.py").read_text()
    checksum = archives.with_checksum(known, parent / "archive" / known.name).sha256
    project.write("datasets/cifar10.py", module.replace(known.sha256, checksum))
    project.write("datasets/two_classes.py", TREE)
    archives.zipped(parent / "tree" / "tree.zip", archives.image_tree(train=8, val=3))
    project.write("config/kinds.yaml", SUITE)
    succeeded(project.python("snakemake", "--config", "suites=kinds", f"data={parent}"))
    return project


def test_an_archive_of_each_kind_goes_all_the_way_to_a_trained_run(made):
    runs = pd.read_csv(made.folder / "results/summary.csv").set_index("dataset")
    assert set(runs.status) == {"done"}
    assert dict(runs.total_steps) == {"archive": 5, "tree": 2}


def test_every_run_knows_the_checksums_of_its_data(made):
    for name in ("archive", "tree"):
        manifest = json.loads((made.folder / f"results/data/{name}/manifest.json").read_text())
        run = record.read(made.folder / f"results/runs/kinds/{name}/cnn/ssgd/w2/seed0" / record.RUN)
        known = run.provenance["data_sha256"]
        assert known["train_images.npy"] == manifest["files"]["train_images.npy"]["sha256"]
    assert manifest["options"] == {"size": 24}
    assert manifest["shape"] == [3, 24, 24]


def test_what_was_laid_out_is_not_overwritten_by_mistake(made):
    for path in (made.folder / "results/data/tree").iterdir():
        assert not path.stat().st_mode & 0o222


def test_nothing_is_done_twice(made):
    assert not made.is_planned("kinds")


def test_without_the_data_the_pipeline_says_what_is_missing(made):
    made.write("config/missing.yaml", SUITE.replace("tree:", "missing:"))
    answer = made.snakemake(suite="missing")
    assert answer.returncode != 0
    assert "make it; put it into FOLDER/missing, and write `data: FOLDER` into" in answer.stderr
