"""The SHA-256 digest of a large file, which tells its progress while it is computed."""

import hashlib
from collections.abc import Callable
from pathlib import Path

_CHUNK_BYTES = 2**24


def watched_digest(path: Path, progress: Callable[[str], None]) -> str:
    """Return the digest of a file, in hexadecimal.

    Args:
        path: of the file.
        progress: called for every chunk, with a description of what is done and how far it is.
    """
    size, done = path.stat().st_size, 0
    digest, chunk = hashlib.sha256(), memoryview(bytearray(min(_CHUNK_BYTES, size)))
    with path.open("rb", buffering=0) as file:
        while read := file.readinto(chunk):
            digest.update(chunk[:read])
            done += read
            progress(f"verifies {path.name}, {100 * done // size} %")
    return digest.hexdigest()
