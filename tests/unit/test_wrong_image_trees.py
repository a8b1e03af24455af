"""What is wrong with a tree of images, or with its archive, is one sentence, and nothing is written."""

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from tests import archives
from tests.unit.test_image_folder import FILES, Small, laid, put
from thinwire import plugins
from thinwire.base.errors import UserError
from thinwire.data import image_folder, image_tree


def refusal(tmp_path, place, made=None):
    before = sorted(p for p in tmp_path.rglob("*") if p.is_file())
    with pytest.raises(UserError) as caught:
        laid(tmp_path, place, made)
    assert not (tmp_path / "laid").exists()
    after = sorted(p for p in tmp_path.rglob("*") if p.is_file() and "download" not in p.parts)
    assert after == before, "it wrote something"
    return str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f | {"train/n01/bad.JPEG": b"no image"}, "train/n01/bad.JPEG cannot be decoded"),
        (lambda f: {n: c for n, c in f.items() if n.startswith("train")}, "has no images in val/CLASS"),
        (lambda f: f | {"val/n03/x.JPEG": archives.jpeg(1)}, "is of a class that has no training image"),
        (lambda f: {n: c for n, c in f.items() if "n02" not in n}, "has 1 classes instead of 2: make it"),
        (lambda f: f | {f"old/copy/{n}": c for n, c in f.items()}, "has several trees, . and old/copy"),
        (lambda f: f | {"train/n01/a\nb.JPEG": b"?"}, "cannot be printed: rename the file"),
    ],
)
def test_what_is_wrong_with_a_tree_is_one_sentence(change, message, tmp_path):
    assert message in refusal(tmp_path, put(tmp_path / "place", "zip", change(FILES)))


def appended(kind: bytes, name: str):
    """Another member at the end of a tar."""

    def append(path: Path) -> None:
        with tarfile.open(path, "a") as tar:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "../n02/n02_train_000.JPEG"
            tar.addfile(info, io.BytesIO())

    return append


def cut_off(count: int):
    return lambda path: path.write_bytes(path.read_bytes()[:-count])


def cut_after_a_member(path: Path) -> None:
    with tarfile.open(path) as tar:
        end = tar.getmembers()[7].offset
    path.write_bytes(path.read_bytes()[:end])


@pytest.mark.parametrize(
    ("form", "damage", "message"),
    [
        ("tar", appended(tarfile.REGTYPE, "train/n01/n01_train_000.JPEG"), "000.JPEG more than once"),
        ("tar", appended(tarfile.SYMTYPE, "train/n01/x.JPEG"), "x.JPEG is a link or a device"),
        ("tar", appended(tarfile.LNKTYPE, "train/n01/x.JPEG"), "x.JPEG is a link or a device"),
        ("tar", cut_after_a_member, "it is cut short, or damaged in the middle"),
        ("tar", cut_off(20_000), "cannot be read (unexpected end of data): fetch it again"),
        ("tar.gz", cut_off(2000), "cannot be read ("),
        ("tar.gz", lambda path: path.write_bytes(b"?"), "cannot be read ("),
        ("zip", cut_off(2000), "cannot be read ("),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_damaged_archive_is_one_sentence(form, damage, message, tmp_path):
    place = put(tmp_path / "place", form)
    damage(next(place.iterdir()))
    assert message in refusal(tmp_path, place)


def test_a_tar_that_became_shorter_since_it_was_listed_is_one_sentence(tmp_path):
    place = put(tmp_path / "place", "tar")
    tree = image_tree.ImageTree(place)
    put(place, "tar", dict(list(FILES.items())[:5]))
    with pytest.raises(UserError, match="has fewer images than when it was listed"):
        image_folder.decode(tree, tree.entries, np.arange(len(tree.entries)), 8, tmp_path / "images.npy")


@pytest.mark.parametrize("content", [{}, {"a.zip": b"", "b.tar": b""}, {"notes.txt": b""}])
def test_a_folder_without_a_tree_is_one_sentence(content, tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    for name, text in content.items():
        (place / name).write_bytes(text)
    words = "must have train/ and val/ with a folder for each class, or one archive"
    assert words in refusal(tmp_path, place)


@pytest.mark.parametrize("name", ["imagenet_mini", "imagenet1k", "imagenette"])
def test_missing_data_are_named_with_their_source_and_terms(name, tmp_path):
    made = plugins.get("dataset", name).load()()
    message = refusal(tmp_path, None, made)
    assert all(part in message for part in (made.source, "get", "--from", "folder"))


def test_a_set_that_is_not_whole_is_refused(tmp_path):
    class Expecting(Small):
        expected = {"train": 10, "val": 5}  # noqa: RUF012

    message = refusal(tmp_path, put(tmp_path / "place", "folder"), Expecting())
    assert "has 4 images in val/ instead of 5: make it" in message
