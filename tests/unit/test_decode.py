"""Image files of every kind become pixels in 8 bits; a wrong tree or archive is refused in one sentence."""

import contextlib
import io
import struct
import tarfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests import archives
from tests.unit.test_image_folder import FILES, Small, laid, put
from thinwire import plugins
from thinwire.base.errors import UserError
from thinwire.data import image_folder, image_tree


def saved(image: Image.Image, form: str = "PNG", **more) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **more)
    return file.getvalue()


def decoded(content: bytes, size: int = 8) -> np.ndarray:
    entry = image_tree.Entry("train", "n01", "train/n01/x.png", len(content), 0)
    return image_folder._decode_one(Path("tree"), entry, content, size)


def plain(mode: str, value) -> Image.Image:
    return Image.new(mode, (9, 9), value)


def with_palette() -> Image.Image:
    image = plain("P", 1)
    image.putpalette([9, 9, 9, 10, 20, 30])
    return image


POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 20 20\n%%EndComments\nshowpage\n"
COLOURS = {
    "black and white": (saved(plain("1", 1)), [255, 255, 255]),
    "grey": (saved(plain("L", 77)), [77, 77, 77]),
    "grey with alpha": (saved(plain("LA", (77, 0))), [77, 77, 77]),
    "colour": (saved(plain("RGB", (1, 2, 3))), [1, 2, 3]),
    "colour with alpha": (saved(plain("RGBA", (1, 2, 3, 0))), [1, 2, 3]),
    "palette": (saved(with_palette()), [10, 20, 30]),
    "palette with alphas": (saved(with_palette(), transparency=bytes([0, 128])), [10, 20, 30]),
    "palette with one that is transparent": (saved(with_palette(), transparency=1), [10, 20, 30]),
    "grey with one that is transparent": (saved(plain("L", 77), transparency=77), [77, 77, 77]),
    "16 bits of grey": (saved(Image.fromarray(np.full((9, 9), 0x1234, np.uint16))), [0x12, 0x12, 0x12]),
    "white in 16 bits of grey": (saved(Image.fromarray(np.full((9, 9), 0xFFFF, np.uint16))), [255, 255, 255]),
    "CMYK": (saved(plain("CMYK", (0, 255, 255, 0)), "JPEG"), [255, 0, 0]),
}


@pytest.mark.parametrize(("content", "colour"), COLOURS.values(), ids=COLOURS)
def test_every_kind_of_pixels_has_its_colour_and_warns_of_nothing(content, colour):
    pixels = decoded(content)
    assert pixels.shape == (3, 8, 8)
    assert np.abs(pixels.astype(int) - np.array(colour)[:, None, None]).max() <= 1


def test_pixels_of_an_unknown_kind_are_refused():
    with pytest.raises(ValueError, match="its pixels are of the kind F"):
        image_folder._square(Image.new("F", (9, 9)), 8)


def claims(content: bytes, width: int, height: int) -> bytes:
    """A PNG whose header says that it is as large as this."""
    header = b"IHDR" + struct.pack(">II", width, height) + content[24:29]
    return content[:12] + header + struct.pack(">I", zlib.crc32(header)) + content[33:]


UNSOUND = {
    "900 million": (claims(saved(plain("L", 0)), 30_000, 30_000), "could be decompression bomb"),
    "90 million": (claims(saved(plain("L", 0)), 9_500, 9_500), "could be decompression bomb"),
    "none": (claims(saved(plain("L", 0)), 0, 0), ""),
    "animated": (saved(plain("L", 1), save_all=True, append_images=[plain("L", 2)]), "it is animated"),
    "cut": (saved(Image.effect_noise((99, 99), 90))[:-2000], "truncated"),
    "cut JPEG": (archives.jpeg(0)[:-200], "truncated"),
    "empty": (b"", ""),
    # Other formats are not even tried: Pillow hands PostScript to a program that executes it.
    "PostScript": (POSTSCRIPT, "cannot identify image file"),
    "GIF": (saved(plain("P", 0), "GIF"), "cannot identify image file"),
}


@pytest.mark.parametrize(("content", "message"), UNSOUND.values(), ids=UNSOUND)
def test_an_image_that_is_no_sound_image_is_one_sentence(content, message):
    with image_folder.catch_warnings(action="error"), pytest.raises(UserError) as caught:
        decoded(content)
    assert str(caught.value).startswith("tree: train/n01/x.png cannot be decoded (")
    assert message in str(caught.value)
    assert "()" not in str(caught.value)


def test_a_damaged_image_is_decoded_or_refused_and_nothing_else():
    stream = np.random.default_rng(0)
    for content in (saved(with_palette()), saved(plain("LA", (1, 2))), archives.jpeg(0)):
        for _ in range(100):
            changed = bytearray(content)
            for place in stream.integers(0, len(changed), 3).tolist():
                changed[place] = int(stream.integers(256))
            with contextlib.suppress(UserError):
                assert decoded(bytes(changed)).shape == (3, 8, 8)


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
    words = "must have train/ and val/ with a folder for each class, or one archive"
    assert words in refusal(tmp_path, put(tmp_path / "place", "folder", content))


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
