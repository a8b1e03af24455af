"""Image files to arrays of bytes: decoded once, on all cores, and gone on with after an interruption."""

import hashlib
import io
import json
import os
from collections import deque
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from thinwire.data.image_tree import Entry, ImageTree
from thinwire.errors import UserError
from thinwire.files import write_json, writing

# Raised when the same file would be decoded to other bytes.
_VERSION = 1
_FORMATS = ("JPEG", "PNG")  # no other decoder is ever asked: some of Pillow's start programs
_MOST_PIXELS = 100_000_000  # of an image; ImageNet's largest has 61 million
_CHUNK = 64  # images that one thread decodes at a time
_CHUNKS_BETWEEN_NOTES = 16


class Decoded(NamedTuple):
    """Images, and the digests of what they were decoded from."""

    images: np.ndarray  # uint8 [N, 3, size, size]
    sha256: np.ndarray  # uint8 [N, 32], of the image files


def decode(tree: ImageTree, entries: list[Entry], rows: np.ndarray, size: int, path: Path) -> Decoded:
    """Decode images into a file, and the digests of what they were decoded from into another.

    The square in the middle is made `size` pixels wide. How far it has come is noted beside the files; what
    is there for anything else is begun anew.

    Args:
        tree: where the entries are.
        entries: in the order of the tree.
        rows: where in the file each of them goes [N].
        size: pixels.
        path: of the file, which ends in .npy.

    Raises:
        UserError: an image cannot be decoded, or there is no room.
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
    console = Console()
    columns = (TextColumn("decode"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("decode", total=len(entries), completed=done)
        with closing(_in_parallel(tree, entries, done, size)) as chunks:
            for start, part in chunks:
                done = start + len(part.images)
                images[rows[start:done]], sha256[rows[start:done]] = part
                bar.update(task, completed=done)
                if done // _CHUNK % _CHUNKS_BETWEEN_NOTES == 0 or done == len(entries):
                    images.flush()
                    sha256.flush()
                    write_json(note, {"identity": identity, "done": done})
    if done != len(entries):
        raise UserError(f"{tree.path} gave {done:,} of its {len(entries):,} images: fetch it again")
    return Decoded(images, sha256)


def _done(note: Path, identity: str, shapes: dict[Path, tuple[int, ...]]) -> int:
    """How many images of the same work are in place."""
    try:
        content = json.loads(note.read_text())
        there = all(np.load(file, mmap_mode="r").shape == shape for file, shape in shapes.items())
    except (OSError, ValueError):
        return 0
    return content["done"] if there and content["identity"] == identity else 0


def _make_room(path: Path, shape: tuple[int, ...]) -> None:
    """An array of zeros on disk, with all its room taken: a full disk is found now, and not while writing."""
    with writing(path):
        np.lib.format.open_memmap(path, "w+", np.uint8, shape).flush()
        if hasattr(os, "posix_fallocate"):  # not on every system
            with path.open("r+b") as file:
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)


def _in_parallel(
    tree: ImageTree, entries: list[Entry], done: int, size: int
) -> Generator[tuple[int, Decoded], None, None]:
    """Chunks of decoded images with the number of their first, in order; a few chunks ahead, not more.

    Threads: Pillow decodes and resizes without the interpreter's lock.
    """
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    waiting: deque[tuple[int, Future[Decoded]]] = deque()
    with closing(tree.contents(entries[done:])) as files, ThreadPoolExecutor(threads) as pool:
        contents = zip(entries[done:], files)
        try:
            while True:
                while len(waiting) < 2 * threads and (chunk := list(islice(contents, _CHUNK))):
                    waiting.append((done, pool.submit(_decode_chunk, tree.path, chunk, size)))
                    done += len(chunk)
                if not waiting:
                    return
                start, future = waiting.popleft()
                yield start, future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _decode_chunk(where: Path, chunk: list[tuple[Entry, bytes]], size: int) -> Decoded:
    digests = [np.frombuffer(hashlib.sha256(content).digest(), np.uint8) for _, content in chunk]
    images = [_decode_one(where, entry, content, size) for entry, content in chunk]
    return Decoded(np.stack(images), np.stack(digests))


def _decode_one(where: Path, entry: Entry, content: bytes, size: int) -> np.ndarray:
    """One image [3, size, size]."""
    try:
        with Image.open(io.BytesIO(content), formats=_FORMATS) as image:
            if image.width * image.height > _MOST_PIXELS:
                raise ValueError(f"it has {image.width} x {image.height} pixels")
            image.draft("RGB", (size, size))  # JPEG: at a half, a quarter or an eighth, if that is enough
            whole = image.convert("RGB")
    except (OSError, ValueError, SyntaxError, MemoryError, Image.DecompressionBombError) as error:
        raise UserError(f"{where}: {entry.name} cannot be decoded ({error}): fetch it again") from None
    side = min(whole.size)
    left, top = (whole.width - side) // 2, (whole.height - side) // 2
    middle = (left, top, left + side, top + side)
    small = whole.resize((size, size), Image.Resampling.BILINEAR, box=middle)
    return np.asarray(small).transpose(2, 0, 1)
