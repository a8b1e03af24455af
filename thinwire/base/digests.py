"""SHA-256 digests, in hexadecimal: of files, of text, and of objects that JSON can hold.

Digests of files show whether these are still as they were written. They find accidents and careless edits,
for example a flipped bit, a truncated copy or a number changed by hand. They also find files of two runs in
one folder. They are no signature: anybody can compute them anew.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from thinwire.base import files
from thinwire.base.errors import UserError

# The key under which a JSON object stores the digest of its other entries.
_OWN = "sha256"
_CHUNK_BYTES = 2**24
Content = dict[str, Any]


class Damaged(UserError):
    """A file is missing, truncated or changed.

    The message says which file and how. What the user can do about it, the caller adds.
    """


def of_file(path: Path, progress: Callable[[str], None] = lambda what: None) -> str:
    """Return the digest of a file; `progress` is called for every chunk, with how far it is.

    Raises:
        Damaged: there is no such file.
        UserError: it cannot be read.
    """
    with reading(path), path.open("rb", buffering=0) as file:
        size, done = os.fstat(file.fileno()).st_size, 0
        digest, chunk = hashlib.sha256(), memoryview(bytearray(min(_CHUNK_BYTES, size)))
        while read := file.readinto(chunk):
            digest.update(chunk[:read])
            done += read
            progress(f"verifies {path.name}, {100 * done // size} %")
    return digest.hexdigest()


def of_files(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Return the digests of some files in a folder, by name; errors are those of `of_file`."""
    return {name: of_file(folder / name) for name in names}


def require_files(folder: Path, expected: Mapping[str, str]) -> None:
    """Check that the files in a folder have these digests; otherwise raise `Damaged`, or as `of_file`."""
    for name, digest in expected.items():
        if of_file(folder / name) != digest:
            raise Damaged(f"{folder / name} is not the file that was written (its SHA-256 differs)")


def write_json(path: Path, content: Mapping[str, object]) -> None:
    """Write a JSON object with a digest of itself, under another name, and rename it when it is complete."""
    files.write_json(path, {**content, _OWN: of_object(content)})


def read_json(path: Path) -> Content:
    """Return what `write_json` has written, without the digest.

    Raises:
        Damaged: `write_json` has not written this file, or it was changed since.
        UserError: it cannot be read.
    """
    return read_json_and_digest(path)[0]


def read_json_and_digest(path: Path) -> tuple[Content, str]:
    """Return what `write_json` has written, and its digest; errors are those of `read_json`."""
    with reading(path):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(content, dict):
                raise Damaged(f"{path} is damaged (it holds no JSON object)")
            digest = content.pop(_OWN, None)
            same = digest == of_object(content)
        except UnicodeDecodeError:
            raise Damaged(f"{path} is damaged (it is not UTF-8)") from None
        except RecursionError:
            raise Damaged(f"{path} is damaged (it is nested too deeply)") from None
        except ValueError as error:
            raise Damaged(f"{path} is damaged (it is not JSON: {error})") from None
    if digest is None:
        raise Damaged(
            f"{path} has no digest of itself: an earlier version of thinwire wrote it, or it was changed"
        )
    if not same:
        raise Damaged(f"{path} was changed after it was written (its SHA-256 differs)")
    return content, digest


def of_text(text: str) -> str:
    """Return the digest of a text in UTF-8."""
    return hashlib.sha256(text.encode()).hexdigest()


def of_object(content: Mapping[str, object]) -> str:
    """Return the digest of the content, which depends neither on indentation nor on the order of keys."""
    return of_text(json.dumps(content, sort_keys=True))


def of_identity(identity: object) -> str:
    """Return the first 16 digits of the digest of what identifies a cell, a preparation or a block.

    What JSON cannot hold, for example a path, counts as its text.
    """
    return of_text(json.dumps(identity, sort_keys=True, default=str))[:16]


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn the system's error about a file that cannot be read into one sentence."""
    try:
        # A device or a pipe may never end.
        if not (path.is_file() or path.is_dir()) and path.exists():
            raise Damaged(f"{path} is no regular file")
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise Damaged(f"{path} is missing") from None
    except IsADirectoryError:
        raise Damaged(f"{path} is a folder instead of a file") from None
    except OSError as error:
        raise UserError(
            f"{path} cannot be read ({error.strerror}): make it readable or delete it, and start again"
        ) from None
