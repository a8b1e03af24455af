"""Trees of images, {train,val}/CLASS/*.JPEG, in a folder, a zip or a tar.

An archive is read member by member, and nothing of it is unpacked onto the disk. Damage is found where the
form has checksums. A zip has one for each member, and a gzip one for the whole. A plain tar has them for its
headers only.
"""

import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from thinwire.base.errors import UserError, quoted

PARTS = ("train", "val")
SUFFIXES = (".jpeg", ".jpg", ".png")
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz")


class Entry(NamedTuple):
    """One image file."""

    part: str  # train or val
    class_name: str  # the folder's name
    name: str  # its path in the tree
    bytes: int
    stamp: int  # changes when the file does: time of change, or checksum in a zip


class ImageTree:
    """The images of a tree in a fixed order: as they lie in an archive, by name in a folder."""

    def __init__(self, path: Path) -> None:
        """Find the tree in a folder, or in the one archive that lies in it.

        Raises:
            UserError: there is none, or the archive is damaged.
        """
        self.path = _the_archive(path) if path.is_dir() and not _roots(path) else path
        with _readable(self.path):
            self.entries = [
                Entry(PurePosixPath(name).parts[-3], PurePosixPath(name).parts[-2], name, size, stamp)
                for name, size, stamp in self._files()
                if _is_image(name)
            ]
        for name, count in Counter(entry.name for entry in self.entries).items():
            if count > 1:
                raise UserError(f"{self.path} has {name} more than once: fetch it from its source")
            if not name.isprintable():
                raise UserError(
                    f"{self.path}: the name {quoted(name)} is no UTF-8 or cannot be printed: rename the file"
                )
        roots = sorted({str(PurePosixPath(entry.name).parents[2]) for entry in self.entries})
        if len(roots) > 1:
            raise UserError(
                f"{self.path} has several trees, {roots[0]} and {roots[1]}: leave one of them there"
            )
        for part in PARTS:
            if not any(entry.part == part for entry in self.entries):
                raise UserError(f"{self.path} has no images in {part}/CLASS/*.JPEG")

    def classes(self) -> list[str]:
        """The names of the training images' classes, sorted; those of others are refused."""
        names = {entry.class_name for entry in self.entries if entry.part == "train"}
        for entry in self.entries:
            if entry.part == "val" and entry.class_name not in names:
                raise UserError(f"{self.path}: {entry.name} is of a class that has no training image")
        return sorted(names)

    def contents(self, entries: list[Entry]) -> Generator[bytes, None, None]:
        """The files of some entries, which are given in the order of the tree.

        Raises:
            UserError: one of them cannot be read.
        """
        with _readable(self.path):
            if self.path.is_dir():
                for entry in entries:
                    yield (self.path / entry.name).read_bytes()
            elif self.path.suffix == ".zip":
                with zipfile.ZipFile(self.path) as archive:
                    for entry in entries:
                        yield archive.read(entry.name)
            else:
                wanted = {entry.name for entry in entries}
                for member, tar in _members(self.path):
                    if member.name in wanted:
                        content = tar.extractfile(member)
                        assert content is not None, "entries are plain files"
                        yield content.read()

    def _files(self) -> Iterator[tuple[str, int, int]]:
        """Name, bytes and stamp of each file."""
        if self.path.is_dir():
            root = _roots(self.path)[0]
            for part in PARTS:
                for path in sorted((root / part).glob("*/*")):
                    if path.is_file():
                        about = path.stat()
                        yield str(path.relative_to(self.path)), about.st_size, about.st_mtime_ns
        elif self.path.suffix == ".zip":
            with zipfile.ZipFile(self.path) as archive:
                for info in archive.infolist():
                    if not info.is_dir():
                        yield info.filename, info.file_size, info.CRC
        else:
            stamp = self.path.stat().st_mtime_ns
            for member, _ in _members(self.path):
                if member.isfile():
                    yield member.name, member.size, stamp


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn what reading an archive or a file may raise into one sentence; encryption is among it."""
    try:
        yield
    except (
        *(zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, OSError),
        *(LookupError, ValueError, RuntimeError),
    ) as error:
        raise UserError(f"{path} cannot be read ({error}): fetch it again") from None


def _the_archive(folder: Path) -> Path:
    found = sorted(p for p in folder.iterdir() if p.is_file() and p.name.endswith(ARCHIVES))
    if len(found) != 1:
        what = f"several archives ({', '.join(p.name for p in found)})" if found else "neither"
        raise UserError(
            f"{folder} must have train/ and val/ with a folder for each class, or one archive: has {what}"
        )
    return found[0]


def _roots(folder: Path) -> list[Path]:
    """Where train/ and val/ stand: in the folder itself, or in its only folder."""
    inside = [p for p in folder.iterdir() if p.is_dir()]
    candidates = [folder, *inside] if len(inside) == 1 else [folder]
    return [c for c in candidates if all((c / part).is_dir() for part in PARTS)]


def _members(path: Path) -> Generator[tuple[tarfile.TarInfo, tarfile.TarFile], None, None]:
    """The members of a tar, compressed or not, from front to back."""
    with tarfile.open(path) as tar:
        for member in tar:
            if not (member.isfile() or member.isdir()):
                raise tarfile.ReadError(f"{member.name} is a link or a device: pack the file itself")
            yield member, tar
            tar.members.clear()  # type: ignore[attr-defined]  # it would keep all of them
        rest = tar.fileobj
        assert rest is not None, "it is open"
        rest.seek(tar.offset)
        if rest.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
            # To tarfile a damaged header is the end.
            raise tarfile.ReadError("it is cut short, or damaged in the middle")
        while rest.read(2**20):  # to the end, where a gzip has its checksum
            pass


def _is_image(name: str) -> bool:
    """Does it lie in {train,val}/CLASS/, at any depth, and look like an image?"""
    path = PurePosixPath(name)
    hidden = any(part.startswith((".", "__MACOSX")) for part in path.parts)
    return not hidden and path.suffix.lower() in SUFFIXES and len(path.parts) >= 3 and path.parts[-3] in PARTS
