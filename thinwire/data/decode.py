"""Decodes image files into arrays of bytes: once, on all cores. An interrupted decoding can be resumed."""

import hashlib
import io
import json
import os
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import NamedTuple
from warnings import catch_warnings

import numpy as np
from PIL import Image
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from thinwire.data.decoding_memory import MemoryBudget
from thinwire.data.image_tree import Entry, ImageTree
from thinwire.errors import UserError
from thinwire.files import write_json, writing

# Raise this when the same file would be decoded to other bytes.
_VERSION = 2
_FORMATS = ("JPEG", "PNG")  # no other decoder is ever used, because some of Pillow's start programs
# Pillow's modes with at most 8 bits a channel. In other modes Pillow would clip values at 255.
_EIGHT_BITS = ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr")
_MOST_PIXELS = 80_000_000  # of an image; ImageNet's largest has 61 million
_CHUNK = 64  # images that one thread decodes at a time; fewer if they are large
_IMAGES_BETWEEN_NOTES = 1024
# These two bound the memory that decoding takes, for images of any size and any number of cores.
_WAITING_BYTES = 256 * 2**20  # files that were read, and images that are not yet written
_DECODING_BYTES = 2**30  # images in their full size
# Pillow takes 4 bytes for a colour pixel, and holds the original image beside the converted one.
_BYTES_PER_PIXEL = 8


class Decoded(NamedTuple):
    """Decoded images, and the digests of their files."""

    images: np.ndarray  # uint8 [N, 3, size, size]
    sha256: np.ndarray  # uint8 [N, 32], of the image files


def decode(tree: ImageTree, entries: list[Entry], rows: np.ndarray, size: int, path: Path) -> Decoded:
    """Decode images into one file, and write the digests of the image files into another.

    The square in the middle of an image is resized to `size` pixels. A note beside the files holds the
    progress, so that the same work is resumed. Files of other work are replaced.

    Args:
        tree: where the images are.
        entries: the images, in the order of the tree.
        rows: the row of the file into which each image goes [N].
        size: width and height, in pixels.
        path: the file with the images, which ends in .npy.

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
    console = Console()
    columns = (TextColumn("decode"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    noted = done
    with (
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar,
        catch_warnings(action="error", category=Image.DecompressionBombWarning),
    ):
        task = bar.add_task("decode", total=len(entries), completed=done)
        with closing(_in_parallel(tree, entries, done, size)) as chunks:
            for start, part in chunks:
                done = start + len(part.images)
                images[rows[start:done]], sha256[rows[start:done]] = part
                bar.update(task, completed=done)
                if done - noted >= _IMAGES_BETWEEN_NOTES or done == len(entries):
                    images.flush()
                    sha256.flush()
                    write_json(note, {"identity": identity, "done": done})
                    noted = done
    return Decoded(images, sha256)


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


def _in_parallel(
    tree: ImageTree, entries: list[Entry], done: int, size: int
) -> Generator[tuple[int, Decoded], None, None]:
    """Chunks of decoded images, in order, each with the number of its first image.

    Threads decode as many chunks ahead as the memory allows: Pillow works without the interpreter's lock.
    """
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    most_waiting = 2 * threads
    budget = MemoryBudget(_DECODING_BYTES)
    waiting: deque[tuple[int, int, Future[Decoded]]] = deque()
    held = 0
    with closing(tree.contents(entries[done:])) as files, ThreadPoolExecutor(threads) as pool:
        try:
            for chunk, cost in _chunks(entries[done:], size, _WAITING_BYTES // most_waiting):
                while waiting and (len(waiting) == most_waiting or held + cost > _WAITING_BYTES):
                    start, paid, future = waiting.popleft()
                    yield start, future.result()
                    held -= paid
                contents = list(zip(chunk, files))
                if len(contents) != len(chunk):
                    raise UserError(f"{tree.path} has fewer images than when it was listed: fetch it again")
                waiting.append((done, cost, pool.submit(_decode_chunk, tree.path, contents, size, budget)))
                held += cost
                done += len(chunk)
            for start, _, future in waiting:
                yield start, future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _chunks(entries: list[Entry], size: int, most_bytes: int) -> Iterator[tuple[list[Entry], int]]:
    """Images to decode together, and their cost: the bytes of their files and of the decoded images.

    A chunk costs more than `most_bytes` only if it is one image that is too large by itself.
    """
    chunk: list[Entry] = []
    cost = 0
    for entry in entries:
        own = entry.bytes + 3 * size * size
        if chunk and (len(chunk) == _CHUNK or cost + own > most_bytes):
            yield chunk, cost
            chunk, cost = [], 0
        chunk.append(entry)
        cost += own
    if chunk:
        yield chunk, cost


def _decode_chunk(where: Path, chunk: list[tuple[Entry, bytes]], size: int, budget: MemoryBudget) -> Decoded:
    digests = [np.frombuffer(hashlib.sha256(content).digest(), np.uint8) for _, content in chunk]
    images = [_decode_one(where, entry, content, size, budget) for entry, content in chunk]
    return Decoded(np.stack(images), np.stack(digests))


def _decode_one(where: Path, entry: Entry, content: bytes, size: int, budget: MemoryBudget) -> np.ndarray:
    """One image [3, size, size]."""
    try:
        with Image.open(io.BytesIO(content), formats=_FORMATS) as image:
            if image.width * image.height > _MOST_PIXELS:
                raise ValueError(f"it has {image.width} x {image.height} pixels")
            if image.format == "PNG" and getattr(image, "is_animated", False):
                raise ValueError("it is animated")
            with budget.taken(image.width * image.height * _BYTES_PER_PIXEL):
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
