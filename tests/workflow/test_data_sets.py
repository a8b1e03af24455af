"""Archives in the official formats, from the user's folder to a trained run."""

import json

import numpy as np
import pandas as pd
import pytest

from tests import archives
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
datasets:
  cifar10_binary: {use: cifar10}
  cifar10_python: {use: cifar10}
  cifar100: {}
  cifar100_python: {use: cifar100}
  tree_folder: {use: two_classes, options: {size: 16}}
  tree_zip: {use: two_classes, options: {size: 24}}
  tree_tar: {use: two_classes, options: {size: 16}}
models: {cnn: {options: {width: 2}}}
methods: {ssgd: }
workers: [2]
recipe: {epochs: 1, batch: 4, batch_per: worker, reading: contiguous, mixup: 0.2, optimizer: {lr: 0.01}}
"""


def images(count, seed):
    return np.random.default_rng(seed).integers(0, 256, (count, 3, 32, 32), np.uint8)


def cifar(name, form):
    """The members of an archive of one data set in one form: 40 training and 10 test images."""
    labels = {count: [i % 10 for i in range(count)] for count in (8, 10, 40)}
    parts = (
        {"train": 40, "test": 10}
        if name == "cifar100"
        else {**{f"data_batch_{i}": 8 for i in range(1, 6)}, "test_batch": 10}
    )
    key = {"cifar10": "labels", "cifar100": "fine_labels"}[name]
    content = {}
    for seed, (member, count) in enumerate(parts.items()):
        if form == "binary":
            own = [labels[count]] if name == "cifar10" else [labels[count], labels[count]]
            content[f"c/{member}.bin"] = archives.binary(images(count, seed), *own)
        else:
            content[f"c/{member}"] = archives.python_2_pickle(images(count, seed), {key: labels[count]})
    return content


@pytest.fixture(scope="module")
def made(project, tmp_path_factory):
    """A parent folder with one folder for each data set, and the pipeline's answer to it."""
    parent = tmp_path_factory.mktemp("data")
    for name in ("cifar10", "cifar100"):
        module = (project.folder / f"datasets/{name}.py").read_text()
        dataset = plugins.get("dataset", name).load()
        for form, known in zip(("binary", "python"), dataset.archives):
            label = "cifar100" if (name, form) == ("cifar100", "binary") else f"{name}_{form}"
            (parent / label).mkdir()
            path = parent / label / known.name
            archives.tar_gz(path, cifar(name, form))
            module = module.replace(known.sha256, archives.with_checksum(known, path).sha256)
        project.write(f"datasets/{name}.py", module)
    project.write("datasets/two_classes.py", TREE)
    files = archives.image_tree(train=8, val=3)
    archives.write_tree(parent / "tree_folder" / "any-name", files)
    for form, pack in (("zip", archives.zipped), ("tar", archives.tar_gz)):
        (parent / f"tree_{form}").mkdir()
        pack(parent / f"tree_{form}" / f"tree.{'zip' if form == 'zip' else 'tar.gz'}", files)
    project.write("config/kinds.yaml", SUITE)
    answer = project.python("snakemake", "--config", "suites=kinds", f"data={parent}")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return project


def test_an_archive_of_each_kind_goes_all_the_way_to_a_trained_run(made):
    runs = pd.read_csv(made.folder / "results/summary.csv").set_index("dataset")
    assert len(runs) == 7
    assert set(runs.status) == {"done"}
    assert (runs.total_steps == [5, 5, 5, 5, 2, 2, 2]).all()


def test_every_run_knows_the_checksums_of_its_data(made):
    for name in ("cifar10_python", "tree_zip"):
        manifest = json.loads((made.folder / f"results/data/{name}/manifest.json").read_text())
        run = record.read(made.folder / f"results/runs/kinds/{name}/cnn/ssgd/w2/seed0" / record.RUN)
        known = run.provenance["data_sha256"]
        assert known["train_images.npy"] == manifest["files"]["train_images.npy"]["sha256"]
    assert manifest["options"] == {"size": 24}
    assert manifest["shape"] == [3, 24, 24]


def test_both_forms_of_an_archive_are_the_same_data(made):
    for name in ("cifar10_{}", "cifar100{}"):
        one, other = (
            name.format(form) for form in (("binary", "python") if "_" in name else ("", "_python"))
        )
        for array in ("train_images", "train_labels", "test_images", "test_labels"):
            a, b = (np.load(made.folder / f"results/data/{label}/{array}.npy") for label in (one, other))
            assert np.array_equal(a, b)


def test_what_was_laid_out_is_not_overwritten_by_mistake(made):
    for path in (made.folder / "results/data/tree_zip").iterdir():
        assert not path.stat().st_mode & 0o222


def test_nothing_is_done_twice(made):
    assert not made.is_planned("kinds")


def test_without_the_data_the_pipeline_says_what_is_missing(made):
    made.write("config/missing.yaml", SUITE.replace("tree_zip", "tree_rar"))
    answer = made.snakemake(suite="missing")
    assert answer.returncode != 0
    assert "make it, put it into a folder, and name that" in answer.stderr


def test_two_suites_that_mean_different_things_by_one_label_are_refused(made):
    made.write("config/other.yaml", SUITE.replace("size: 24", "size: 32"))
    answer = made.python("snakemake", "-n", "--config", "suites=kinds,other")
    assert answer.returncode != 0
    assert "two suites mean different things by the data set tree_zip" in answer.stderr
    assert "Traceback" not in answer.stderr
