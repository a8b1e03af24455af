"""Downloads the official files of data sets, and recognises them by their published digests."""

import hashlib
import http.client
import socket
import urllib.error
from functools import partial
from io import BufferedIOBase
from pathlib import Path

from thinwire.errors import UserError
from thinwire.files import writing

TIMEOUT_SECONDS = 30


def is_official(file: BufferedIOBase, digest: str) -> bool:
    """Has an open file the SHA-256 or the MD5 that its source publishes, in hexadecimal digits?"""
    algorithm = {64: "sha256", 32: "md5"}[len(digest)]
    new = partial(hashlib.new, algorithm, usedforsecurity=False)
    return hashlib.file_digest(file, new).hexdigest() == digest


def download(url: str, target: Path, digest: str, otherwise: str) -> None:
    """Download `url` to `target`, unless it exists. Only a whole and official file gets this name.

    Args:
        url: of the file.
        target: where to put it.
        digest: the SHA-256 or the MD5 of the official file.
        otherwise: what the user can do if it cannot be fetched, as the end of the message.

    Raises:
        UserError: the download failed, or brought another file.
    """
    if target.exists():
        return
    from torchvision.datasets.utils import download_url  # takes a second

    arriving = target.with_name(f"{target.name}.partial")
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        arriving.unlink(missing_ok=True)  # of a download that was interrupted
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT_SECONDS)  # torchvision would wait for ever
    try:
        download_url(url, target.parent, arriving.name)
        with arriving.open("rb") as file:
            if not is_official(file, digest):
                raise ConnectionError("what arrived is damaged, cut short, or another file")
    except (OSError, http.client.HTTPException) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        raise UserError(f"{url} cannot be fetched ({error}): {otherwise}") from None
    finally:
        socket.setdefaulttimeout(before)
    arriving.rename(target)
