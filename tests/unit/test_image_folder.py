"""Trees of images: found in a folder or an archive, decoded once, and resumed."""

import csv
import hashlib
import io
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from PIL import Image

from tests import archives
from thinwire.base.errors import CannotWrite, UserError
from thinwire.data import arrays, image_folder, image_tree
from thinwire.data.dataset import lay_out
from thinwire.data.image_folder import ImageFolder

FILES = archives.image_tree(train=5, val=2)


class Small(ImageFolder):
    classes = 2
    licence = source = "none"
    how_to_get = "make it"


def dataset(size=16):
    return Small(Small.Config(size=size))


def put(folder, form, files=FILES, prefix=""):
    """A tree in one of its forms."""
    folder.mkdir(exist_ok=True)
    files = {f"{prefix}{name}": content for name, content in files.items()}
    if form == "folder":
        archives.write_tree(folder, files)
    elif form == "zip":
        archives.zipped(folder / "tree.zip", files)
    else:
        archives.tar(folder / f"tree.{form}", files)
    return folder


def laid(tmp_path, place, made=None):
    made = made or dataset()
    lay_out("small", made, tmp_path / "laid", place, tmp_path / "download")
    return arrays.load(tmp_path / "laid", made)


@pytest.mark.parametrize(
    ("form", "prefix"), [("folder", ""), ("zip", "imagenet-mini/"), ("tar", ""), ("tar.gz", "imagenet-mini/")]
)
def test_a_tree_is_laid_out_from_a_folder_or_any_archive(form, prefix, tmp_path):
    noise = {"train/readme.txt": b"?", "train/n01/._n01.JPEG": b"?", "val/n01/notes.txt": b"?"}
    files = FILES | {"val/n02/z, with a comma.JPEG": archives.jpeg(99)}
    data = laid(tmp_path, put(tmp_path / ".hidden place", form, files | noise, prefix))
    assert data.train_inputs.shape == (10, 3, 16, 16)
    assert data.test_labels.tolist() == [0, 0, 1, 1, 1]
    assert not (tmp_path / "download" / "scratch").exists()
    rows = list(csv.DictReader((tmp_path / "laid" / "sources.csv").read_text().splitlines()))
    names = [row["name"].removeprefix(prefix) for row in rows]
    # The tree is sorted by class, and the training images are not.
    assert sorted(names) == sorted(files)
    assert names[:10] != list(files)[:10]
    assert names[10:] == list(files)[10:]
    assert data.train_labels.tolist() == [int(name.split("/")[1] == "n02") for name in names[:10]]
    for image, name in zip([*data.train_inputs, *data.test_inputs], names):
        # At the borders of the square the resizing knows what lies beyond; here it does not.
        assert np.abs(image.numpy().astype(int) - expected(files[name], 16)).max() <= 8
        assert np.abs(image.numpy().astype(int) - expected(files[name], 16))[:, 2:-2, 2:-2].max() <= 1
    assert [row["sha256"] for row in rows] == [hashlib.sha256(files[name]).hexdigest() for name in names]
    assert [int(row["bytes"]) for row in rows] == [len(files[name]) for name in names]


def expected(content, size):
    """The square in the middle, to `size`."""
    image = Image.open(io.BytesIO(content))
    image.draft("RGB", (size, size))
    image = image.convert("RGB")
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    square = image.crop((left, top, left + side, top + side))
    return np.asarray(square.resize((size, size), Image.Resampling.BILINEAR)).transpose(2, 0, 1)


@pytest.mark.parametrize("form", ["folder", "tar"])
def test_the_files_of_two_chunks_at_most_are_in_memory(form, tmp_path, monkeypatch):
    """Whatever the number of cores: what is read is at most two chunks ahead of what is decoded."""
    monkeypatch.setattr(image_folder, "_CHUNK", 3)
    read, decoded, ahead = [], [], []
    contents, one = image_tree.ImageTree.contents, image_folder._decode_one

    def counted(tree, entries):
        for content in contents(tree, entries):
            read.append(content)
            ahead.append(len(read) - len(decoded))
            yield content

    def slow(*arguments):
        made = one(*arguments)
        decoded.append(made)
        return made

    monkeypatch.setattr(image_tree.ImageTree, "contents", counted)
    monkeypatch.setattr(image_folder, "_decode_one", slow)
    laid(tmp_path, put(tmp_path / "place", form))
    assert len(read) == len(FILES)
    assert max(ahead) <= 6


@pytest.fixture
def decoded(monkeypatch):
    """The names of the images that are decoded, two at a time, with a note after each two.

    `decoded.stops` says of a name whether the decoding is interrupted there.
    """

    class Names(list):
        stops = staticmethod(lambda name: False)

    names, one = Names(), image_folder._decode_one

    def noted(where, entry, *more):
        if names.stops(entry.name):
            raise KeyboardInterrupt
        names.append(entry.name)
        return one(where, entry, *more)

    monkeypatch.setattr(image_folder, "_decode_one", noted)
    monkeypatch.setattr(image_folder, "_CHUNK", 2)
    monkeypatch.setattr(image_folder, "_CHUNKS_BETWEEN_NOTES", 1)
    return names


def interrupted(tmp_path, place):
    with pytest.raises(KeyboardInterrupt):
        laid(tmp_path, place)


def test_an_interrupted_decoding_resumes_where_it_stopped(tmp_path, monkeypatch, decoded):
    place = put(tmp_path / "place", "tar")
    monkeypatch.setattr(image_folder.os, "sched_getaffinity", lambda _: {0})
    decoded.stops = lambda name: len(decoded) == 7
    interrupted(tmp_path, place)
    decoded.stops = lambda name: False
    data = laid(tmp_path, place)
    assert 14 - 6 <= len(decoded) - 7 < 14
    whole = tmp_path / "whole"
    whole.mkdir()
    again = laid(whole, place)
    assert torch.equal(data.train_inputs, again.train_inputs)
    assert torch.equal(data.train_labels, again.train_labels)
    sources = [(folder / "laid" / "sources.csv").read_text() for folder in (tmp_path, whole)]
    assert sources[0] == sources[1]


@pytest.mark.usefixtures("decoded")
@pytest.mark.parametrize("write", range(4))
def test_no_image_stays_black_whichever_write_fails(write, tmp_path, monkeypatch):
    """Twice, because the second time there are files of the first one."""
    place = put(tmp_path / "place", "tar")
    good = laid(tmp_path, place).train_inputs.clone()
    written, real = [], image_folder.write_json

    def fails(path, content):
        written.append(path)
        if len(written) == write + 1:
            raise KeyboardInterrupt
        real(path, content)

    monkeypatch.setattr(image_folder, "write_json", fails)
    interrupted(tmp_path, place)
    assert torch.equal(laid(tmp_path, place).train_inputs, good)
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_files_that_were_replaced_by_others_of_the_same_size_are_decoded_again(tmp_path, decoded):
    black, white = io.BytesIO(), io.BytesIO()
    for file, grey in ((black, 9), (white, 200)):
        Image.new("RGB", (20, 20), (grey,) * 3).save(file, "PNG", compress_level=0)
    names = [f"{part}/{c}/{i}.png" for part in ("train", "val") for c in "ab" for i in range(4)]
    place = put(tmp_path / "place", "folder", dict.fromkeys(names, black.getvalue()))
    decoded.stops = lambda name: name == "train/b/2.png"
    interrupted(tmp_path, place)
    decoded.stops = lambda name: False
    assert len(black.getvalue()) == len(white.getvalue())
    archives.write_tree(place, dict.fromkeys(names, white.getvalue()))
    assert laid(tmp_path, place).train_inputs.unique().tolist() == [200]


@pytest.mark.parametrize("left", [b"", b"{}", b'{"done": "x"}', b"\xff"], ids=range(4))
def test_a_truncated_note_is_ignored(left, tmp_path):
    scratch = tmp_path / "download" / "scratch"
    scratch.mkdir(parents=True)
    for name in ("train.json", "train.npy", "train.sha256.npy"):
        (scratch / name).write_bytes(left)
    assert len(laid(tmp_path, put(tmp_path / "place", "folder")).train_inputs) == 10


def test_a_full_disk_is_found_before_anything_is_decoded(tmp_path, monkeypatch):
    full = Mock(side_effect=OSError(28, "No space left on device"))
    monkeypatch.setattr(image_folder.os, "posix_fallocate", full)
    monkeypatch.setattr(image_folder, "_decode_one", lambda *a: pytest.fail("it began"))
    with pytest.raises(CannotWrite, match="No space left on device"):
        laid(tmp_path, put(tmp_path / "place", "zip"))


def test_another_size_is_decoded_anew_and_never_taken_for_the_old_one(tmp_path):
    place = put(tmp_path / "place", "zip")
    laid(tmp_path, place)
    with pytest.raises(UserError, match=r"was laid out with the options \{'size': 16\}, and asked for are"):
        arrays.load(tmp_path / "laid", dataset(24))
    assert laid(tmp_path, place, dataset(24)).train_inputs.shape == (10, 3, 24, 24)
