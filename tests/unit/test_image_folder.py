"""Trees of images: found, decoded once, gone on with, and no harm from whoever packed them."""

import csv
import hashlib
import io
import json
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests import archives
from thinwire import plugins
from thinwire.data import arrays, decode, image_tree
from thinwire.data.image_folder import ImageFolder
from thinwire.errors import UserError

FILES = archives.image_tree(train=5, val=2)


class Small(ImageFolder):
    classes = 2
    licence = source = "none"
    how_to_get = "make it"


def dataset(size=16):
    return Small(Small.Config(size=size))


@pytest.fixture(autouse=True)
def here(monkeypatch):
    """Decode in this process: starting others takes longer than the tests' images."""

    class Here:
        def __init__(self, *arguments):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *arguments):
            pass

        def submit(self, function, *arguments):
            future = decode.Future()
            try:
                future.set_result(function(*arguments))
            except UserError as error:
                future.set_exception(error)
            return future

        def shutdown(self, **options):
            pass

    monkeypatch.setattr(decode, "ProcessPoolExecutor", Here)


def put(folder, form, files=FILES, prefix=""):
    """A tree in one of its forms."""
    folder.mkdir(exist_ok=True)
    files = {f"{prefix}{name}": content for name, content in files.items()}
    if form == "folder":
        archives.write_tree(folder, files)
    elif form == "zip":
        archives.zipped(folder / "tree.zip", files)
    elif form == "tar.gz":
        archives.tar_gz(folder / "tree.tar.gz", files)
    else:
        with tarfile.open(folder / "tree.tar", "w") as tar:
            for name, content in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return folder


def laid(tmp_path, place, made=None):
    made = made or dataset()
    arrays.lay_out("small", made, tmp_path / "laid", place, tmp_path / "download")
    return arrays.load(tmp_path / "laid", made)


@pytest.mark.parametrize("form", ["folder", "zip", "tar", "tar.gz"])
@pytest.mark.parametrize("prefix", ["", "imagenet-mini/"])
def test_a_tree_is_laid_out_from_whatever_it_is_in(form, prefix, tmp_path):
    noise = {"train/readme.txt": b"?", "LOC_val_solution.csv": b"?", "__MACOSX/train/n01/._x.JPEG": b"?"}
    place = put(tmp_path / "place", form, FILES | ({} if form == "folder" else noise), prefix)
    data = laid(tmp_path, place)
    assert data.train_images.shape == (10, 3, 16, 16)
    assert data.train_labels.tolist() == [0] * 5 + [1] * 5
    assert data.test_labels.tolist() == [0, 0, 1, 1]
    train = [content for name, content in FILES.items() if name.startswith("train")]
    for image, content in zip(data.train_images, train):
        assert np.array_equal(image.numpy(), expected(content, 16))
    rows = list(csv.DictReader((tmp_path / "laid" / "sources.csv").read_text().splitlines()))
    assert [row["sha256"] for row in rows] == [
        hashlib.sha256(content).hexdigest() for content in FILES.values()
    ]
    assert [int(row["bytes"]) for row in rows] == [len(content) for content in FILES.values()]
    assert [row["name"].removeprefix(prefix) for row in rows] == list(FILES)


def expected(content, size):
    """The shorter side to `size`, and the middle."""
    image = Image.open(io.BytesIO(content))
    image.draft("RGB", (size, size))
    image = image.convert("RGB")
    scale = size / min(image.size)
    image = image.resize([max(size, round(side * scale)) for side in image.size], Image.Resampling.BILINEAR)
    left, top = (image.width - size) // 2, (image.height - size) // 2
    return np.asarray(image).transpose(2, 0, 1)[:, top : top + size, left : left + size]


def test_the_middle_is_cut_out_and_nothing_is_squeezed(tmp_path):
    """A wide picture: red to the left, green in the middle, blue to the right."""
    wide = np.zeros((20, 60, 3), np.uint8)
    for i in range(3):
        wide[:, 20 * i : 20 * i + 20, i] = 255
    file = io.BytesIO()
    Image.fromarray(wide).save(file, "PNG")
    grey = io.BytesIO()
    Image.fromarray(np.full((9, 9), 77, np.uint8)).save(grey, "PNG")
    files = {f"{part}/a/{part}.png": file.getvalue() for part in ("train", "val")}
    files |= {f"{part}/b/{part}.png": grey.getvalue() for part in ("train", "val")}
    data = laid(tmp_path, put(tmp_path / "place", "folder", files))
    middle = data.train_images[0, :, :, 2:-2].float().mean((1, 2))
    assert middle.tolist() == [0, 255, 0]
    assert data.train_images[1].unique().tolist() == [77]  # grey becomes colour, and is made larger


def test_an_interrupted_decoding_goes_on_where_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(decode, "_CHUNK", 2)
    monkeypatch.setattr(decode, "_CHUNKS_BETWEEN_NOTES", 1)
    place = put(tmp_path / "place", "tar")
    decoded = []
    one = decode._decode_one

    def count(where, entry, content, size):
        if len(decoded) == 7:
            raise KeyboardInterrupt
        decoded.append(entry.name)
        return one(where, entry, content, size)

    monkeypatch.setattr(decode, "_decode_one", count)
    monkeypatch.setattr(decode.os, "cpu_count", lambda: 1)
    with pytest.raises(KeyboardInterrupt):
        laid(tmp_path, place)
    before = len(decoded)
    monkeypatch.setattr(decode, "_decode_one", one)
    seen = []
    monkeypatch.setattr(decode, "_decode_one", lambda *a: (seen.append(a[1].name), one(*a))[1])
    data = laid(tmp_path, place)
    assert before == 7
    assert 14 - 6 <= len(seen) < 14
    train = [content for name, content in FILES.items() if name.startswith("train")]
    for image, content in zip(data.train_images, train):
        assert np.array_equal(image.numpy(), expected(content, 16))


def test_another_size_is_decoded_anew_and_never_taken_for_the_old_one(tmp_path):
    place = put(tmp_path / "place", "zip")
    laid(tmp_path, place)
    with pytest.raises(UserError, match=r"was laid out with the options \{'size': 16\}, and asked for are"):
        arrays.load(tmp_path / "laid", dataset(24))
    assert laid(tmp_path, place, dataset(24)).train_images.shape == (10, 3, 24, 24)


def refusal(tmp_path, place, made=None):
    before = sorted(p for p in tmp_path.rglob("*") if p.is_file())
    with pytest.raises(UserError) as caught:
        laid(tmp_path, place, made)
    assert not (tmp_path / "laid").exists()
    after = sorted(p for p in tmp_path.rglob("*") if p.is_file() and p.parent.name != "download")
    assert after == before, "it wrote something"
    return str(caught.value)


@pytest.mark.parametrize(
    "name", ["../escaped.JPEG", "/tmp/absolute.JPEG", "train/../../n01/x.JPEG", "C:/x.JPEG"]
)
@pytest.mark.parametrize("form", ["zip", "tar", "tar.gz"])
def test_a_path_that_leads_out_of_an_archive_is_refused(name, form, tmp_path):
    place = put(tmp_path / "place", form, FILES | {name: b"?"})
    assert "leads out of the archive, which is refused" in refusal(tmp_path, place)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_a_link_or_a_device_in_a_tar_is_refused(kind, tmp_path):
    place = put(tmp_path / "place", "tar")
    with tarfile.open(place / "tree.tar", "a") as tar:
        link = tarfile.TarInfo("train/n01/link.JPEG")
        link.type, link.linkname = kind, "/etc/passwd"
        tar.addfile(link)
    assert "is a link or a device, which is refused" in refusal(tmp_path, place)


def test_a_link_in_a_zip_is_refused(tmp_path):
    place = put(tmp_path / "place", "zip")
    with zipfile.ZipFile(place / "tree.zip", "a") as archive:
        link = zipfile.ZipInfo("train/n01/link.JPEG")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    assert "is a link or a device, which is refused" in refusal(tmp_path, place)


def test_an_image_of_absurd_size_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(image_tree, "MOST_BYTES", 20_000)
    place = tmp_path / "place"
    place.mkdir()
    with zipfile.ZipFile(place / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in FILES.items():
            archive.writestr(name, content)
        archive.writestr("train/n01/bomb.JPEG", bytes(10_000_000))
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda *a: pytest.fail("it was read"))
    assert "train/n01/bomb.JPEG has 10,000,000 bytes" in refusal(tmp_path, place)


def test_an_image_of_too_many_pixels_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    assert "cannot be decoded" in refusal(tmp_path, put(tmp_path / "place", "folder"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f: f | {"train/n01/bad.JPEG": b"no image"}, "train/n01/bad.JPEG cannot be decoded"),
        (
            lambda f: f | {"train/n02/cut.JPEG": FILES["train/n01/n01_train_000.JPEG"][:300]},
            "cut.JPEG cannot be",
        ),
        (lambda f: {n: c for n, c in f.items() if n.startswith("train")}, "has no images in val/CLASS"),
        (lambda f: f | {"val/n03/x.JPEG": archives.jpeg(1)}, "is of a class that has no training image"),
        (lambda f: {n: c for n, c in f.items() if "n02" not in n}, "has 1 classes instead of 2: make it"),
    ],
)
@pytest.mark.parametrize("form", ["zip", "tar"])
def test_what_is_wrong_with_a_tree_is_one_sentence(change, said, form, tmp_path):
    assert said in refusal(tmp_path, put(tmp_path / "place", form, change(FILES)))


def test_an_image_that_is_there_twice_is_refused(tmp_path):
    place = put(tmp_path / "place", "tar")
    with tarfile.open(place / "tree.tar", "a") as tar:
        info = tarfile.TarInfo("train/n01/n01_train_000.JPEG")
        tar.addfile(info, io.BytesIO())
    assert "n01_train_000.JPEG more than once" in refusal(tmp_path, place)


@pytest.mark.parametrize("form", ["zip", "tar.gz"])
def test_a_truncated_archive_is_refused(form, tmp_path):
    place = put(tmp_path / "place", form)
    (path,) = place.iterdir()
    path.write_bytes(path.read_bytes()[:-2000])
    assert "cannot be read" in refusal(tmp_path, place)


def test_a_flipped_bit_of_what_was_laid_out_is_found_before_training(tmp_path):
    laid(tmp_path, put(tmp_path / "place", "folder"))
    for name in ("train_images.npy", "test_labels.npy", "sources.csv"):
        path = tmp_path / "laid" / name
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
        with pytest.raises(UserError, match=f"{name} is not the file that was prepared"):
            arrays.load(tmp_path / "laid", dataset())
        content[-1] ^= 1
        path.write_bytes(content)


@pytest.mark.parametrize("content", [{}, {"a.zip": b"", "b.tar": b""}, {"notes.txt": b""}])
def test_a_folder_without_a_tree_is_one_sentence(content, tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    for name, text in content.items():
        (place / name).write_bytes(text)
    assert "must have train/ and val/ with a folder for each class, or one archive" in refusal(
        tmp_path, place
    )


@pytest.mark.parametrize("name", ["imagenet_mini", "imagenet1k", "imagenette"])
def test_without_the_data_it_says_what_to_get_from_where_on_which_terms(name, tmp_path):
    made = plugins.get("dataset", name).load()()
    said = refusal(tmp_path, None, made)
    for part in (made.source, "get", "--from", "folder"):
        assert part in said
    assert refusal(tmp_path, put(tmp_path / "place", "folder"), made).count("classes instead of") == 1


def test_a_set_that_is_not_whole_is_refused(tmp_path):
    class Expecting(Small):
        expected = {"train": 10, "val": 5}  # noqa: RUF012

    said = refusal(tmp_path, put(tmp_path / "place", "folder"), Expecting())
    assert "has 4 images in val/ instead of 5: make it" in said


def test_processes_share_the_pages_of_one_copy(tmp_path):
    """The arrays are maps of the files, not copies; and writing to one changes no file."""
    data = laid(tmp_path, put(tmp_path / "place", "folder"))
    maps = Path("/proc/self/maps").read_text()
    assert str(tmp_path / "laid" / "train_images.npy") in maps
    before = (tmp_path / "laid" / "train_images.npy").read_bytes()
    data.train_images[0] = 0
    assert (tmp_path / "laid" / "train_images.npy").read_bytes() == before
    assert json.loads((tmp_path / "laid" / "manifest.json").read_text())["options"] == {"size": 16}
