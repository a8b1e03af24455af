"""What an archive of images may contain: no link, no path that leads out of it, no file of absurd size."""

import re
from pathlib import Path, PurePosixPath
from typing import IO

from thinwire.errors import UserError, quoted

MOST_BYTES = 64 * 2**20  # of one image file


def require_harmless(archive: Path, name: str, special: bool) -> None:
    """Check a member of an archive.

    Nothing is unpacked, so nothing could happen; but who packs such a thing is not to be trusted.

    Raises:
        UserError: its path leads out of the archive, or it is special: a link or a device.
    """
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in "".join(path.parts[:1]):
        raise UserError(
            f"{archive}: {name} leads out of the archive, which is refused: fetch it from its source"
        )
    if special:
        raise UserError(
            f"{archive}: {name} is a link or a device, which is refused: fetch it from its source"
        )


def require_size(where: Path, name: str, size: int) -> None:
    """Check how many bytes an image is said to have.

    Raises:
        UserError: more than any image here has.
    """
    if size > MOST_BYTES:
        raise UserError(
            f"{where}: {name} has {size:,} bytes, which no image here has: fetch it from its source"
        )


def require_printable(where: Path, name: str) -> None:
    """Check that a name can be shown.

    Raises:
        UserError: it is no UTF-8, or it has control characters.
    """
    if re.search(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", name):
        raise UserError(
            f"{where}: the name {quoted(name)} is no UTF-8 or has control characters: rename the file"
        )


def read_whole(file: IO[bytes], size: int, name: str) -> bytes:
    """Return the content of a file. It never takes more memory than was said when the archive was listed.

    Raises:
        UserError: the file has not `size` bytes.
    """
    content = file.read(size + 1)
    if len(content) != size:
        raise UserError(f"{name} has not the {size:,} bytes that it says it has: fetch it again")
    return content
