"""Small archives in the exact formats of the official ones, for tests."""

import hashlib
import io
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image


def tar(path: Path, members: dict[str, bytes]) -> None:
    """An archive of plain files, compressed if its name ends in .gz."""
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def with_checksum(archive, path: Path):
    """The description of an official archive, with the checksum of this file."""
    return archive._replace(sha256=hashlib.sha256(path.read_bytes()).hexdigest())


def binary(images: np.ndarray, *labels: np.ndarray) -> bytes:
    """CIFAR's binary records: label bytes and pixels."""
    columns = [np.asarray(own, np.uint8)[:, None] for own in labels]
    return np.concatenate([*columns, images.reshape(len(images), -1)], axis=1).tobytes()


def python_2_pickle(images: np.ndarray, labels: dict[str, list[int]]) -> bytes:
    """A Python member of CIFAR, as Python 2 pickled it with protocol 2: an array and lists, text as keys."""

    def text(value: bytes) -> bytes:
        if len(value) < 256:
            return b"U" + bytes([len(value)]) + value
        return b"T" + struct.pack("<i", len(value)) + value

    def number(value: int) -> bytes:
        return b"J" + struct.pack("<i", value)

    flat = images.reshape(len(images), -1)
    empty = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n"
        + number(0)
        + b"\x85"
        + text(b"b")
        + b"\x87R"
    )
    dtype = b"cnumpy\ndtype\n" + text(b"u1") + number(0) + number(1) + b"\x87R"
    dtype += b"(" + number(3) + text(b"|") + b"NNN" + number(-1) + number(-1) + number(0) + b"tb"
    shape = number(flat.shape[0]) + number(flat.shape[1]) + b"\x86"
    state = b"(" + number(1) + shape + dtype + b"\x89" + text(flat.tobytes()) + b"tb"
    content = text(b"data") + empty + state + text(b"batch_label") + text(b"training batch 1 of 5")
    for key, values in labels.items():
        content += text(key.encode()) + b"](" + b"".join(map(number, values)) + b"e"
    return b"\x80\x02}(" + content + b"u."


def jpeg(seed: int, width: int = 60, height: int = 48) -> bytes:
    """A smooth random picture, as JPEG."""
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (4, 5, 3), np.uint8))
    file = io.BytesIO()
    coarse.resize((width, height), Image.Resampling.BICUBIC).save(file, "JPEG", quality=95)
    return file.getvalue()


def image_tree(train: int, val: int, classes: tuple[str, ...] = ("n01", "n02")) -> dict[str, bytes]:
    """The files of a tree {train,val}/CLASS/*.JPEG, with these numbers of images of each class."""
    files = {}
    for part, count in (("train", train), ("val", val)):
        for class_name in classes:
            for i in range(count):
                name = f"{part}/{class_name}/{class_name}_{part}_{i:03d}.JPEG"
                files[name] = jpeg(len(files), 60 + i, 48 + 2 * (i % 7))
    return files


def write_tree(folder: Path, files: dict[str, bytes]) -> None:
    """Write the files into a folder."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def zipped(path: Path, members: dict[str, bytes]) -> None:
    """A zip of plain files."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
