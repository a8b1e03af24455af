"""Data sets that are trees of images, such as ImageNet."""

import csv
import hashlib
import io
import json
import os
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar
from warnings import catch_warnings

import numpy as np
from PIL import Image
from pydantic import Field
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from thinwire.base import seeds
from thinwire.base.errors import UserError
from thinwire.base.files import write_json, writing
from thinwire.data.dataset import SCRATCH, Augment, Dataset, Raw
from thinwire.data.image_tree import PARTS, Entry, ImageTree

# Raise this when the same file would be decoded to other bytes.
_VERSION = 2
_FORMATS = ("JPEG", "PNG")  # no other decoder is ever used, because some of Pillow's start programs
# Pillow's modes with at most 8 bits a channel. In other modes Pillow would clip values at 255.
_EIGHT_BITS = ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr")
# Images that are decoded together. The files of two such chunks are in memory, whatever the number of cores.
_CHUNK = 64
_CHUNKS_BETWEEN_NOTES = 16


def decode(
    tree: ImageTree, entries: list[Entry], rows: np.ndarray, size: int, path: Path
) -> tuple[np.ndarray, np.ndarray]:
    """Decode images into one file, and write the digests of the image files into another.

    The square in the middle of an image is resized to `size` pixels. A note beside the files holds the
    progress, so that the same work is resumed. Files of other work are replaced.

    Args:
        tree: where the images are.
        entries: the images, in the order of the tree.
        rows: the row of the file into which each image goes [N].
        size: width and height, in pixels.
        path: the file with the images, which ends in .npy.

    Returns:
        The images, uint8 [N, 3, size, size], and the SHA-256 of their files, uint8 [N, 32].

    Raises:
        UserError: an image cannot be decoded, or the disk is full.
    """
    note, digests = path.with_suffix(".json"), path.with_suffix(".sha256.npy")
    work = json.dumps([_VERSION, size, entries, rows.tolist()])
    identity = hashlib.sha256(work.encode()).hexdigest()
    shapes = {path: (len(entries), 3, size, size), digests: (len(entries), 32)}
    done = _done(note, identity, shapes)
    if not done:
        write_json(note, {"identity": identity, "done": 0})
        for file, shape in shapes.items():
            _make_room(file, shape)
    images, sha256 = (np.lib.format.open_memmap(file, "r+") for file in shapes)
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    console = Console()
    columns = (TextColumn("decode"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())

    def decode_into(row: int, entry: Entry, content: bytes) -> None:
        images[row] = _decode_one(tree.path, entry, content, size)
        sha256[row] = np.frombuffer(hashlib.sha256(content).digest(), np.uint8)

    with (
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar,
        catch_warnings(action="error", category=Image.DecompressionBombWarning),
        closing(tree.contents(entries[done:])) as files,
        ThreadPoolExecutor(threads) as pool,  # Pillow works without the interpreter's lock
    ):
        task = bar.add_task("decode", total=len(entries), completed=done)
        before: list[Future[None]] = []
        for number, start in enumerate(range(done, len(entries) + _CHUNK, _CHUNK), 1):
            # While threads decode one chunk, the files of the next one are read.
            chunk = range(start, min(start + _CHUNK, len(entries)))
            begun = [pool.submit(decode_into, rows[i], entries[i], file) for i, file in zip(chunk, files)]
            if len(begun) < len(chunk):
                raise UserError(f"{tree.path} has fewer images than when it was listed: fetch it again")
            for future in before:
                future.result()
            done += len(before)
            before = begun
            bar.update(task, completed=done)
            if number % _CHUNKS_BETWEEN_NOTES == 0 or done == len(entries):
                images.flush()
                sha256.flush()
                write_json(note, {"identity": identity, "done": done})
    return images, sha256


def _done(note: Path, identity: str, shapes: dict[Path, tuple[int, ...]]) -> int:
    """How many images of the same work are already decoded."""
    try:
        content = json.loads(note.read_text())
        whole = all(np.load(file, mmap_mode="r").shape == shape for file, shape in shapes.items())
        return int(content["done"]) if whole and content["identity"] == identity else 0
    except (OSError, EOFError, ValueError, LookupError, TypeError, RecursionError):
        return 0  # cut short or overwritten


def _make_room(path: Path, shape: tuple[int, ...]) -> None:
    """Make an array of zeros on disk and allocate all of it, so that a full disk shows now, not later."""
    with writing(path):
        np.lib.format.open_memmap(path, "w+", np.uint8, shape).flush()
        if hasattr(os, "posix_fallocate"):  # not on every system
            with path.open("r+b") as file:
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)


def _decode_one(where: Path, entry: Entry, content: bytes, size: int) -> np.ndarray:
    try:
        with Image.open(io.BytesIO(content), formats=_FORMATS) as image:
            if image.format == "PNG" and getattr(image, "is_animated", False):
                raise ValueError("it is animated")
            return _square(image, size)
    except Exception as error:  # Pillow may raise any exception for a damaged file
        why = str(error) or type(error).__name__
        raise UserError(f"{where}: {entry.name} cannot be decoded ({why}): fetch it again") from None


def _square(image: Image.Image, size: int) -> np.ndarray:
    """The square in the middle of the image, resized [3, size, size].

    Transparency is left out, as torchvision does. Of 16-bit grey the upper eight bits are taken, as Pillow
    does with 16-bit colour.
    """
    image.draft("RGB", (size, size))  # decodes a JPEG at 1/2, 1/4 or 1/8 of its size, if that is enough
    if image.mode.startswith("I;16"):
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode not in _EIGHT_BITS:
        raise ValueError(f"its pixels are of the kind {image.mode}")
    image.info.pop("transparency", None)  # otherwise Pillow warns that it is left out
    whole = image.convert("RGB")
    side = min(whole.size)
    left, top = (whole.width - side) // 2, (whole.height - side) // 2
    middle = (left, top, left + side, top + side)
    small = whole.resize((size, size), Image.Resampling.BILINEAR, box=middle)
    return np.asarray(small).transpose(2, 0, 1)


class ImageFolder(Dataset):
    """The base of these data sets: a subclass says which images are expected, and where to get them.

    The validation images are the test set. Training images are laid out in a random order.
    """

    expected: ClassVar[dict[str, int] | None] = None  # numbers of images in train and val; None: any number
    how_to_get: ClassVar[str]
    augment = Augment(least_area=0.25, flip=True)

    @dataclass
    class Config:
        size: Annotated[int, Field(ge=8, le=512)] = 128  # pixels of a side, to which images are resized once

    def __init__(self, config: object = None) -> None:
        super().__init__(config)
        self.size: int = self.config.size
        self.shape = (3, self.size, self.size)

    def training_inputs(self) -> int | None:
        """Return the number that is expected, if any."""
        return None if self.expected is None else self.expected["train"]

    def fetch(self, place: Path | None, download: Path) -> Raw:
        """Decode the tree in `place`, a folder with train/ and val/ or with one archive of them.

        Raises:
            UserError: the tree is missing, incomplete or unsafe.
        """
        if place is None:
            raise UserError(
                f"{self.how_to_get}, put it into a folder, and name that: `thinwire data NAME --from "
                "FOLDER`, or in the pipeline `--config data=PARENT` with PARENT/NAME"
            )
        tree = ImageTree(place)
        classes = tree.classes()
        self._require_whole(tree, classes)
        number = {name: label for label, name in enumerate(classes)}
        images, labels = [], []
        sources = io.StringIO()
        table = csv.writer(sources, lineterminator="\n")
        table.writerow(("name", "bytes", "sha256"))
        for part in PARTS:
            entries = [entry for entry in tree.entries if entry.part == part]
            rows = _shuffled(len(entries)) if part == "train" else np.arange(len(entries))
            decoded, sha256 = decode(tree, entries, rows, self.size, download / SCRATCH / f"{part}.npy")
            in_rows = [entries[i] for i in np.argsort(rows)]
            images.append(decoded)
            labels.append(np.array([number[entry.class_name] for entry in in_rows]))
            table.writerows((e.name, e.bytes, bytes(d).hex()) for e, d in zip(in_rows, sha256))
        return Raw(images[0], labels[0], images[1], labels[1], sources.getvalue())

    def _require_whole(self, tree: ImageTree, classes: list[str]) -> None:
        if len(classes) != self.classes:
            raise UserError(
                f"{tree.path} has {len(classes)} classes instead of {self.classes}: {self.how_to_get}"
            )
        for part, count in (self.expected or {}).items():
            found = sum(entry.part == part for entry in tree.entries)
            if found != count:
                raise UserError(
                    f"{tree.path} has {found:,} images in {part}/ instead of {count:,}: {self.how_to_get}"
                )


def _shuffled(count: int) -> np.ndarray:
    """The row of each training image. A tree is sorted by class; contiguous readers need mixed classes."""
    return np.random.default_rng(seeds.derive("laid out", count)).permutation(count)
