"""CIFAR-10 and CIFAR-100: official archives are found or fetched, verified before they are read, and parsed.

The binary version is preferred: its records are label bytes and 3,072 pixels, so nothing is executed. The
Python version holds pickles; their reader accepts arrays and refuses everything else. Archives are read
member by member; nothing is unpacked onto the disk.
"""

import hashlib
import http.client
import io
import pickle
import socket
import tarfile
import urllib.error
from functools import partial
from io import BufferedIOBase
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np

from thinwire.base.errors import UserError
from thinwire.base.files import writing
from thinwire.data.dataset import Augment, Dataset, Raw

TIMEOUT_SECONDS = 30


def is_official(file: BufferedIOBase, digest: str) -> bool:
    """Has an open file the SHA-256 or the MD5 that its source publishes, in hexadecimal digits?"""
    algorithm = {64: "sha256", 32: "md5"}[len(digest)]
    new = partial(hashlib.new, algorithm, usedforsecurity=False)
    return hashlib.file_digest(file, new).hexdigest() == digest


def fetch_file(url: str, target: Path, digest: str, otherwise: str) -> None:
    """Download `url` to `target`, unless it exists. Only the whole file with this digest gets this name.

    Raises:
        UserError: the download failed, or brought another file; the message ends with what to do `otherwise`.
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


ORIGIN = "https://www.cs.toronto.edu/~kriz"
IMAGE = (3, 32, 32)
PIXELS = 3 * 32 * 32


class Archive(NamedTuple):
    """One of the official archives."""

    name: str
    sha256: str
    train: tuple[str, ...]  # members with training images
    test: tuple[str, ...]
    labels: str | int  # in a binary record: the index of the label byte to use; in a pickle: the key
    label_bytes: int = 1  # label bytes of a binary record


class Cifar(Dataset):
    """The base of CIFAR's data sets: a subclass names the archives and gives the number of classes."""

    archives: ClassVar[list[Archive]]
    shape = IMAGE
    licence = "none stated; cite Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009"
    source = f"{ORIGIN}/cifar.html"
    augment = Augment(pad=4, flip=True)

    def training_inputs(self) -> int:
        """Return the number that CIFAR-10 and CIFAR-100 have."""
        return 50_000

    def fetch(self, place: Path | None, download: Path) -> Raw:
        """Find or fetch one of the archives, verify it and read it.

        Raises:
            UserError: there is no archive, or the one that was found is not the official file.
        """
        folder = place or download
        archive = next((each for each in self.archives if (folder / each.name).is_file()), None)
        if archive is None:
            archive, names = self.archives[0], " or ".join(archive.name for archive in self.archives)
            if place:
                raise UserError(f"{place} has no {names}: put one of these files there ({self.source})")
            fetch_file(
                f"{ORIGIN}/{archive.name}",
                download / archive.name,
                archive.sha256,
                otherwise=f"put {names} from {self.source} into a folder and name it: `thinwire data "
                "NAME --from FOLDER`, or in the pipeline `--config data=PARENT` with PARENT/NAME",
            )
        path = folder / archive.name
        with path.open("rb") as file:
            if not is_official(file, archive.sha256):
                raise UserError(
                    f"{path} is not the official {archive.name} (its SHA-256 is not {archive.sha256}): "
                    "delete it and fetch it again"
                )
        train, test = read(path, archive)
        return Raw(*train, *test)


def read(path: Path, archive: Archive) -> list[tuple[np.ndarray, np.ndarray]]:
    """Images [N, 3, 32, 32] and labels [N] of the training and of the test part.

    Raises:
        UserError: a member is missing, or is not in the format.
    """
    with tarfile.open(path) as tar:
        members = {Path(m.name).name: m for m in tar.getmembers() if m.isfile()}
        parts = []
        for names in (archive.train, archive.test):
            made = []
            for name in names:
                if name not in members:
                    raise UserError(f"{path} has no member {name}: it is not CIFAR's archive")
                file = tar.extractfile(members[name])
                assert file is not None, "members are plain files"
                try:
                    made.append((_binary if name.endswith(".bin") else _pickled)(file.read(), archive))
                except (pickle.UnpicklingError, EOFError, LookupError, AttributeError, TypeError, ValueError):
                    raise UserError(f"{path}: {name} is not in CIFAR's format") from None
            images, labels = zip(*made)
            parts.append((np.concatenate(images), np.concatenate(labels)))
    return parts


def _binary(content: bytes, archive: Archive) -> tuple[np.ndarray, np.ndarray]:
    """Records of label bytes and pixels."""
    assert isinstance(archive.labels, int), "a binary archive names a label byte"
    records = np.frombuffer(content, np.uint8).reshape(-1, archive.label_bytes + PIXELS)
    return records[:, archive.label_bytes :].reshape(-1, *IMAGE), records[:, archive.labels].astype(np.int64)


def _pickled(content: bytes, archive: Archive) -> tuple[np.ndarray, np.ndarray]:
    """A pickled dictionary with bytes for keys: `data` [N, 3072] and a list of labels."""
    batch = _ArraysOnly(io.BytesIO(content), encoding="bytes").load()
    labels = np.array(batch[str(archive.labels).encode()], np.int64)
    return batch[b"data"].reshape(len(labels), *IMAGE), labels


class _ArraysOnly(pickle.Unpickler):
    """Reads pickles of dictionaries, lists, numbers, text and arrays, and refuses everything else."""

    _KNOWN = {  # noqa: RUF012
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        # The function that an array's pickle calls, wherever numpy keeps it now.
        ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
    }

    def find_class(self, module: str, name: str) -> object:
        """The class or function of this name, if a pickled array needs it."""
        known = self._KNOWN.get((module, name))
        if known is None:
            raise pickle.UnpicklingError(f"{module}.{name} does not belong in CIFAR's files")
        return known
