"""Image files of every kind become pixels in 8 bits, or are refused in one sentence."""

import contextlib
import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests import archives
from thinwire.base.errors import UserError
from thinwire.data import image_folder, image_tree


def png(image: Image.Image, **more) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG", **more)
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


def saved(image: Image.Image, form: str) -> bytes:
    file = io.BytesIO()
    image.save(file, form)
    return file.getvalue()


POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 20 20\n%%EndComments\nshowpage\n"


@pytest.mark.parametrize(
    ("content", "colour"),
    [
        (png(plain("1", 1)), [255, 255, 255]),
        (png(plain("L", 77)), [77, 77, 77]),
        (png(plain("LA", (77, 0))), [77, 77, 77]),
        (png(plain("RGB", (1, 2, 3))), [1, 2, 3]),
        (png(plain("RGBA", (1, 2, 3, 0))), [1, 2, 3]),
        (png(with_palette()), [10, 20, 30]),
        (png(with_palette(), transparency=bytes([0, 128])), [10, 20, 30]),
        (png(with_palette(), transparency=1), [10, 20, 30]),
        (png(plain("L", 77), transparency=77), [77, 77, 77]),
        (png(Image.fromarray(np.full((9, 9), 0x1234, np.uint16))), [0x12, 0x12, 0x12]),
        (png(Image.fromarray(np.full((9, 9), 0xFFFF, np.uint16))), [255, 255, 255]),
        (saved(plain("CMYK", (0, 255, 255, 0)), "JPEG"), [255, 0, 0]),
    ],
    ids=[
        *("black and white", "grey", "grey with alpha", "colour", "colour with alpha", "palette"),
        *("palette with alphas", "palette with one that is transparent", "grey with one that is transparent"),
        *("16 bits of grey", "white in 16 bits of grey", "CMYK"),
    ],
)
def test_every_kind_of_pixels_has_its_colour_and_warns_of_nothing(content, colour):
    pixels = decoded(content)
    assert pixels.shape == (3, 8, 8)
    assert np.abs(pixels.astype(int) - np.array(colour)[:, None, None]).max() <= 1


def test_the_middle_is_cropped_without_distortion():
    """A wide picture: red to the left, green in the middle, blue to the right."""
    wide = np.zeros((20, 60, 3), np.uint8)
    for i in range(3):
        wide[:, 20 * i : 20 * i + 20, i] = 255
    pixels = decoded(png(Image.fromarray(wide)), 16)
    assert pixels[:, :, 2:-2].mean((1, 2)).tolist() == [0, 255, 0]


def test_pixels_of_more_than_8_bits_are_scaled_and_not_cut_off():
    ramp = np.linspace(0, 65535, 256).astype(np.uint16)
    pixels = decoded(png(Image.fromarray(np.tile(ramp, (256, 1)))), 256)
    assert np.array_equal(pixels[0, 0], ramp >> 8)


def test_an_unknown_kind_of_pixels_is_refused():
    with pytest.raises(ValueError, match="its pixels are of the kind F"):
        image_folder._square(Image.new("F", (9, 9)), 8)


def claims(content: bytes, width: int, height: int) -> bytes:
    """A PNG whose header says that it is as large as this."""
    header = b"IHDR" + struct.pack(">II", width, height) + content[24:29]
    return content[:12] + header + struct.pack(">I", zlib.crc32(header)) + content[33:]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (claims(png(plain("L", 0)), 30_000, 30_000), "could be decompression bomb"),
        (claims(png(plain("L", 0)), 9_500, 9_500), "could be decompression bomb"),
        (claims(png(plain("L", 0)), 0, 0), ""),
        (png(plain("L", 1), save_all=True, append_images=[plain("L", 2)]), "it is animated"),
        (png(Image.effect_noise((99, 99), 90))[:-2000], "truncated"),
        (archives.jpeg(0)[:-200], "truncated"),
        (b"", ""),
        # Other formats are not even tried: Pillow hands PostScript to a program that executes it.
        (POSTSCRIPT, "cannot identify image file"),
        (saved(plain("P", 0), "GIF"), "cannot identify image file"),
    ],
    ids=[
        *("900 million", "90 million", "none", "animated", "cut", "cut JPEG", "empty"),
        *("PostScript", "GIF"),
    ],
)
def test_an_image_that_is_no_sound_image_is_one_sentence(content, message):
    with image_folder.catch_warnings(action="error"), pytest.raises(UserError) as caught:
        decoded(content)
    assert str(caught.value).startswith("tree: train/n01/x.png cannot be decoded (")
    assert message in str(caught.value)
    assert "()" not in str(caught.value)


def test_a_damaged_image_is_decoded_or_refused_and_nothing_else():
    stream = np.random.default_rng(0)
    for content in (png(with_palette()), png(plain("LA", (1, 2))), archives.jpeg(0)):
        for _ in range(100):
            changed = bytearray(content)
            for place in stream.integers(0, len(changed), 3).tolist():
                changed[place] = int(stream.integers(256))
            with contextlib.suppress(UserError):
                assert decoded(bytes(changed)).shape == (3, 8, 8)
