"""Data sets on disk: laid out, verified before a run, and mapped into memory."""

import hashlib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import thinwire
from thinwire import plugins
from thinwire.base import digests
from thinwire.base.errors import UserError
from thinwire.base.learning import CLASSIFICATION
from thinwire.config.expand import cells
from thinwire.data import arrays
from thinwire.data.arrays import held_out
from thinwire.data.dataset import Raw, array_files, lay_out
from thinwire.train import run_setup
from thinwire.train.run_setup import RunSetup
from thinwire.transport.inprocess import InProcess

CELL = replace(cells("demo")[0], workers=4, nodes=2, transport="processes")


@pytest.fixture
def digits(tmp_path):
    """The folder of the digits, and their data set."""
    dataset = plugins.get("dataset", "digits").load()()
    lay_out("digits", dataset, tmp_path / "digits", None, tmp_path / "download")
    return tmp_path / "digits", dataset


def test_digits_are_all_there_and_no_test_image_is_trained_on(digits):
    data = arrays.load(*digits)
    assert len(data.train_inputs) + len(data.test_inputs) == 1797
    assert not images(data.train_inputs) & images(data.test_inputs)
    tested, trained = torch.bincount(data.test_labels), torch.bincount(data.train_labels)
    shares = tested / (tested + trained)
    assert 0.29 < float(shares.min()) < float(shares.max()) < 0.31
    # The manifest has mean and deviation of the training images.
    pixels = data.train_inputs.double()
    assert data.mean[0] == pytest.approx(float(pixels.mean()))
    assert data.std[0] == pytest.approx(float(pixels.std(correction=0)))


def test_what_is_held_out_for_tuning_comes_from_the_training_set(digits):
    data = arrays.load(*digits)
    tuning = held_out(data)
    assert len(tuning.test_inputs) == round(0.1 * len(data.train_inputs))
    assert len(tuning.train_inputs) + len(tuning.test_inputs) == len(data.train_inputs)
    assert images(tuning.train_inputs, tuning.test_inputs) == images(data.train_inputs)
    assert torch.equal(tuning.test_inputs[:], held_out(data).test_inputs[:])
    again = held_out(tuning)  # of a preparation in a suite that tunes
    assert images(again.train_inputs, again.test_inputs) == images(tuning.train_inputs)


def images(*parts):
    return {image.numpy().tobytes() for part in parts for image in part[:]}


def test_processes_share_the_pages_of_one_copy(digits):
    """The arrays are maps of the files, not copies; and writing to one changes no file."""
    data = arrays.load(*digits)
    path = digits[0] / "train_images.npy"
    assert str(path) in Path("/proc/self/maps").read_text()
    tuning = held_out(data)
    assert torch.equal(tuning.train_inputs[:], data.train_inputs[tuning.train_inputs._rows])
    assert tuning.train_inputs._whole.data_ptr() == data.train_inputs.data_ptr()
    before = path.read_bytes()
    data.train_inputs[0] = 0
    assert path.read_bytes() == before


# ---- Damage.


class Tiny(thinwire.Dataset):
    """Ten images of two by two pixels."""

    classes = 2
    shape = (1, 2, 2)
    licence = "none"
    source = "here"
    augment = thinwire.Augment(pad=1)

    def fetch(self, place, download):
        images = np.arange(40, dtype=np.uint8).reshape(10, 1, 2, 2)
        labels = np.arange(10) % 2
        return Raw(images, labels, images[:4], labels[:4])


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data" / "tiny"
    lay_out("tiny", Tiny(), folder, None, tmp_path / "download")
    return folder


@pytest.mark.parametrize("field", Raw._fields[:4])
def test_damaged_array(data, field):
    name = array_files(CLASSIFICATION)[field]
    path = data / name
    sound = path.read_bytes()
    loaded = arrays.load(data, Tiny())
    assert (len(loaded.train_inputs), loaded.augment) == (10, Tiny.augment)
    path.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
    refused(data, f"{name} is not the file ")
    arrays.load(data, Tiny(), verify=False)  # another process of the node has verified it
    path.write_bytes(sound[:-1])
    refused(data, f"{name} has .* bytes instead of ", verify=False)
    path.unlink()
    refused(data, f"{name} is missing")


def refused(data, words, **options):
    with pytest.raises(UserError, match=f"{words}.*prepare the data again"):
        arrays.load(data, Tiny(), **options)


def test_damaged_manifest(data):
    path = data / arrays.MANIFEST
    sound = digests.read_json(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    refused(data, "manifest.json is damaged ")
    for content in ({}, sound | {"files": {}}, sound | {"files": 5}):
        digests.write_json(path, content)
        refused(data, "is not the manifest of a data set: ")


# ---- Who verifies, and what a rank shows meanwhile.


def test_the_digest_is_that_of_the_file_and_shows_how_far_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(digests, "_CHUNK_BYTES", 400)
    path = tmp_path / "images.npy"
    path.write_bytes(bytes(range(250)) * 4)
    shown = []
    digest = digests.of_file(path, shown.append)
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert shown == [f"verifies images.npy, {percent} %" for percent in (40, 80, 100)]
    path.write_bytes(b"")
    assert digests.of_file(path, shown.append) == hashlib.sha256(b"").hexdigest()


class Stop(Exception):
    """Ends the setup."""


@pytest.mark.parametrize("kind", ["measured", "emulated"])
def test_the_first_rank_of_each_node_verifies_for_the_others_and_shows_it(monkeypatch, tmp_path, kind):
    verified, shown = {}, []

    def task_of(cell, results, device, verify, progress):
        verified[rank] = verify
        progress("verifies a, 1 %")
        raise Stop

    monkeypatch.setattr(run_setup, "task_of", task_of)
    for rank in range(4):
        with pytest.raises(Stop):
            RunSetup(CELL, tmp_path, SimpleNamespace(kind=kind, ranks=[rank]), shown.append).load()
    assert verified == {0: True, 1: False, 2: True, 3: False}
    assert shown == ["verifies a, 1 %"] * 4
    rank = "all"
    with pytest.raises(Stop):
        RunSetup(replace(CELL, transport="inprocess"), tmp_path, InProcess(4)).load()
    assert verified["all"]
