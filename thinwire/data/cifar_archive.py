"""CIFAR's archives: found or fetched, verified before they are read, and parsed.

The binary version is preferred: its records are label bytes and 3,072 pixels, so nothing is executed. The
Python version holds pickles. They are read only if the checksum is right, by a reader that accepts arrays
and refuses everything else. Archives are read member by member; nothing is unpacked onto the disk.
"""

import hashlib
import io
import pickle
import tarfile
import zlib
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from thinwire.data.download import download as fetch_file
from thinwire.data.verify_checksum import require_official
from thinwire.errors import UserError

ORIGIN = "https://www.cs.toronto.edu/~kriz"
IMAGE = (3, 32, 32)
PIXELS = 3 * 32 * 32


class Archive(NamedTuple):
    """One of the official archives."""

    name: str
    md5: str
    sha256: str
    train: tuple[str, ...]  # members with training images
    test: tuple[str, ...]
    labels: str | int  # in a binary record: the index of the label byte to use; in a pickle: the key
    label_bytes: int = 1  # label bytes of a binary record


def find(archives: list[Archive], place: Path | None, downloads: Path) -> tuple[Path, Archive]:
    """Find an archive in `place`; without `place`, in `downloads`, into which one is fetched if needed.

    Raises:
        UserError: there is no archive, or the one that was found is not the official file.
    """
    for folder in [place] if place else [downloads]:
        for archive in archives:
            if (folder / archive.name).is_file():
                return _verified(folder / archive.name, archive), archive
    names = " or ".join(archive.name for archive in archives)
    if place:
        raise UserError(f"{place} has no {names}: put one of these files there ({ORIGIN}/cifar.html)")
    first = archives[0]
    fetch_file(
        f"{ORIGIN}/{first.name}",
        downloads / first.name,
        otherwise=f"put {names} from {ORIGIN}/cifar.html into a folder and name it: "
        "`thinwire data NAME --from FOLDER`, or in the pipeline `--config data=PARENT` with PARENT/NAME",
    )
    return _verified(downloads / first.name, first), first


def read(path: Path, archive: Archive) -> list[tuple[np.ndarray, np.ndarray]]:
    """Images [N, 3, 32, 32] and labels [N] of the training and of the test part.

    Raises:
        UserError: a member is missing, or is not in the format.
    """
    try:
        with tarfile.open(path, "r:gz") as tar:
            members = {Path(m.name).name: m for m in tar.getmembers() if m.isfile()}
            return [_part(tar, members, path, archive, names) for names in (archive.train, archive.test)]
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise UserError(f"{path} cannot be read ({error}): delete it and fetch it again") from None


def _verified(path: Path, archive: Archive) -> Path:
    for algorithm, expected in (("md5", archive.md5), ("sha256", archive.sha256)):
        with path.open("rb") as file:  # read in parts: the file may be any file, of any size
            digest = hashlib.file_digest(
                file, partial(hashlib.new, algorithm, usedforsecurity=False)
            ).hexdigest()
        subject = f"{path} is not the official {archive.name}"
        require_official(digest, expected, subject, f"its {algorithm.upper()}")
    return path


def _part(
    tar: tarfile.TarFile,
    members: dict[str, tarfile.TarInfo],
    path: Path,
    archive: Archive,
    names: tuple[str, ...],
) -> tuple[np.ndarray, np.ndarray]:
    images, labels = [], []
    for name in names:
        if name not in members:
            raise UserError(f"{path} has no member {name}: it is not CIFAR's archive")
        file = tar.extractfile(members[name])
        assert file is not None, "members are plain files"
        parse = _binary if name.endswith(".bin") else _pickled
        part = parse(file.read(), archive)
        if part is None:
            raise UserError(f"{path}: {name} is not in CIFAR's format")
        images.append(part[0])
        labels.append(part[1])
    return np.concatenate(images), np.concatenate(labels)


def _binary(content: bytes, archive: Archive) -> tuple[np.ndarray, np.ndarray] | None:
    """Records of label bytes and pixels."""
    size = archive.label_bytes + PIXELS
    if not content or len(content) % size:
        return None
    records = np.frombuffer(content, np.uint8).reshape(-1, size)
    assert isinstance(archive.labels, int), "a binary archive names a label byte"
    return records[:, archive.label_bytes :].reshape(-1, *IMAGE), records[:, archive.labels].astype(np.int64)


def _pickled(content: bytes, archive: Archive) -> tuple[np.ndarray, np.ndarray] | None:
    """A pickled dictionary with bytes for keys: `data` [N, 3072] and a list of labels."""
    try:
        batch = ArraysOnly(io.BytesIO(content), encoding="bytes").load()
        images, labels = batch[b"data"], np.array(batch[str(archive.labels).encode()], np.int64)
    except (pickle.UnpicklingError, EOFError, KeyError, IndexError, AttributeError, TypeError, ValueError):
        return None
    if not (isinstance(images, np.ndarray) and images.dtype == np.uint8 and images.ndim == 2):
        return None
    if images.shape != (len(labels), PIXELS):
        return None
    return images.reshape(-1, *IMAGE), labels


class ArraysOnly(pickle.Unpickler):
    """Reads pickles of dictionaries, lists, numbers, text and arrays, and refuses everything else."""

    _KNOWN = {  # noqa: RUF012
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        # The function that an array's pickle calls, wherever numpy keeps it now.
        ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
    }

    def find_class(self, module: str, name: str) -> Any:
        """The class or function of this name, if a pickled array needs it."""
        known = self._KNOWN.get((module, name))
        if known is None:
            raise pickle.UnpicklingError(f"{module}.{name} does not belong in CIFAR's files")
        return known
