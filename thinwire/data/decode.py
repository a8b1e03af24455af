"""Image files to arrays of bytes: decoded once, by all cores, and gone on with after an interruption."""

import hashlib
import io
import json
import os
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from thinwire.data.image_tree import Entry, ImageTree
from thinwire.errors import UserError
from thinwire.files import write_json, writing

_CHUNK = 64  # images that one process decodes at a time
_CHUNKS_BETWEEN_NOTES = 16


class Decoded(NamedTuple):
    """Images, and the digests of what they were decoded from."""

    images: np.ndarray  # uint8 [N, 3, size, size]
    sha256: np.ndarray  # uint8 [N, 32], of the image files


def decode(tree: ImageTree, entries: list[Entry], size: int, path: Path) -> Decoded:
    """Decode images into a file, and the digests of what they were decoded from into another.

    The shorter side is made `size` pixels long, and the middle is cut out. How far it has come is noted
    beside the files; what another note stands beside is begun anew.

    Raises:
        UserError: an image cannot be decoded, or there is no room.
    """
    note, digests = path.with_suffix(".json"), path.with_suffix(".sha256.npy")
    identity = hashlib.sha256(json.dumps([size, entries]).encode()).hexdigest()
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        done = _done(note, identity) if path.exists() and digests.exists() else 0
        mode = "r+" if done else "w+"
        images = np.lib.format.open_memmap(path, mode, np.uint8, (len(entries), 3, size, size))
        sha256 = np.lib.format.open_memmap(digests, mode, np.uint8, (len(entries), 32))
    write_json(note, {"identity": identity, "done": done})
    console = Console()
    columns = (
        TextColumn("decode"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("images"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("decode", total=len(entries), completed=done)
        for start, part in _in_parallel(tree, entries, done, size):
            done = start + len(part.images)
            images[start:done], sha256[start:done] = part
            bar.update(task, completed=done)
            if done // _CHUNK % _CHUNKS_BETWEEN_NOTES == 0 or done == len(entries):
                images.flush()
                sha256.flush()
                write_json(note, {"identity": identity, "done": done})
    return Decoded(images, sha256)


def _done(note: Path, identity: str) -> int:
    """How many images of the same work are in place."""
    try:
        content = json.loads(note.read_text())
    except (OSError, ValueError):
        return 0
    return content["done"] if content["identity"] == identity else 0


def _in_parallel(
    tree: ImageTree, entries: list[Entry], done: int, size: int
) -> Iterable[tuple[int, Decoded]]:
    """Chunks of decoded images with the number of their first, in order; a few chunks ahead, not more."""
    processes = os.cpu_count() or 1
    contents = zip(entries[done:], tree.contents(entries[done:]))
    waiting: deque[tuple[int, Future[Decoded]]] = deque()
    with ProcessPoolExecutor(processes, get_context("forkserver")) as pool:
        try:
            while True:
                while len(waiting) < 2 * processes and (chunk := list(islice(contents, _CHUNK))):
                    waiting.append((done, pool.submit(_decode_chunk, str(tree.path), chunk, size)))
                    done += len(chunk)
                if not waiting:
                    return
                start, future = waiting.popleft()
                yield start, future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _decode_chunk(where: str, chunk: list[tuple[Entry, bytes]], size: int) -> Decoded:
    digests = [np.frombuffer(hashlib.sha256(content).digest(), np.uint8) for _, content in chunk]
    images = [_decode_one(where, entry, content, size) for entry, content in chunk]
    return Decoded(np.stack(images), np.stack(digests))


def _decode_one(where: str, entry: Entry, content: bytes, size: int) -> np.ndarray:
    """One image [3, size, size]."""
    try:
        with Image.open(io.BytesIO(content)) as image:
            image.draft(
                "RGB", (size, size)
            )  # JPEG: decodes at a half, a quarter or an eighth, if that is enough
            small = image.convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise UserError(f"{where}: {entry.name} cannot be decoded ({error}): fetch it again") from None
    scale = size / min(small.size)
    width, height = (max(size, round(side * scale)) for side in small.size)
    left, top = (width - size) // 2, (height - size) // 2
    small = small.resize((width, height), Image.Resampling.BILINEAR).crop(
        (left, top, left + size, top + size)
    )
    return np.asarray(small).transpose(2, 0, 1)
