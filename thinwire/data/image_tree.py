"""Trees of images, {train,val}/CLASS/*.JPEG, in a folder, a zip or a tar.

An archive is read member by member and nothing of it is unpacked onto the disk; one with a path that leads
out of it, a link, or an image of absurd size is refused as a whole before anything is read.
"""

import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from thinwire.errors import UserError

PARTS = ("train", "val")
SUFFIXES = (".jpeg", ".jpg", ".png")
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz")
MOST_BYTES = 64 * 2**20  # of one image file


class Entry(NamedTuple):
    """One image file."""

    part: str  # train or val
    class_name: str  # the folder's name
    name: str  # its path in the tree
    bytes: int


class ImageTree:
    """The images of a tree in a fixed order: as they lie in an archive, by name in a folder."""

    def __init__(self, path: Path) -> None:
        """Find the tree in a folder, or in the one archive that lies in it.

        Raises:
            UserError: there is none, or the archive is not to be trusted.
        """
        self.path = _the_archive(path) if path.is_dir() and not _roots(path) else path
        if self.path.is_dir():
            self.entries = list(_in_folder(self.path))
        else:
            try:
                self.entries = list(_in_zip(self.path) if self._is_zip else _in_tar(self.path))
            except (zipfile.BadZipFile, tarfile.TarError, EOFError, OSError) as error:
                raise UserError(f"{self.path} cannot be read ({error}): fetch it again") from None
        names = Counter(entry.name for entry in self.entries)
        if twice := [name for name, count in names.items() if count > 1]:
            raise UserError(f"{self.path} has {twice[0]} more than once: fetch it from its source")
        for part in PARTS:
            if not any(entry.part == part for entry in self.entries):
                raise UserError(f"{self.path} has no images in {part}/CLASS/*.JPEG")

    @property
    def _is_zip(self) -> bool:
        return self.path.suffix == ".zip"

    def classes(self) -> list[str]:
        """The names of the classes, sorted: those of the training images.

        Raises:
            UserError: a validation image is of another class.
        """
        names = sorted({entry.class_name for entry in self.entries if entry.part == "train"})
        for entry in self.entries:
            if entry.part == "val" and entry.class_name not in set(names):
                raise UserError(f"{self.path}: {entry.name} is of a class that has no training image")
        return names

    def contents(self, entries: list[Entry]) -> Iterator[bytes]:
        """The files of some entries, in the order given, which is fastest in the order of the tree."""
        if self.path.is_dir():
            for entry in entries:
                yield (self.path / entry.name).read_bytes()
        elif self._is_zip:
            with zipfile.ZipFile(self.path) as archive:
                for entry in entries:
                    yield archive.read(entry.name)
        else:
            with tarfile.open(self.path) as tar:
                wanted = {entry.name for entry in entries}
                for member in tar:
                    if member.name in wanted:
                        file = tar.extractfile(member)
                        assert file is not None, "entries are plain files"
                        yield file.read()


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


def _in_folder(folder: Path) -> Iterator[Entry]:
    root = _roots(folder)[0]
    for part in PARTS:
        for path in sorted((root / part).glob("*/*")):
            if path.suffix.lower() in SUFFIXES and path.is_file():
                yield _entry(folder, str(path.relative_to(folder)), path.stat().st_size)


def _in_zip(path: Path) -> Iterator[Entry]:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            link = (info.external_attr >> 16) & 0o170000 == 0o120000
            _require_harmless(path, info.filename, link)
            if not info.is_dir() and _is_image(info.filename):
                yield _entry(path, info.filename, info.file_size)


def _in_tar(path: Path) -> Iterator[Entry]:
    with tarfile.open(path) as tar:
        for member in tar:
            _require_harmless(path, member.name, not (member.isfile() or member.isdir()))
            if member.isfile() and _is_image(member.name):
                yield _entry(path, member.name, member.size)


def _require_harmless(archive: Path, name: str, special: bool) -> None:
    """Nothing is unpacked, so nothing could happen; but who packs such a thing is not to be trusted."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in "".join(path.parts[:1]):
        raise UserError(
            f"{archive}: {name} leads out of the archive, which is refused: fetch it from its source"
        )
    if special:
        raise UserError(
            f"{archive}: {name} is a link or a device, which is refused: fetch it from its source"
        )


def _is_image(name: str) -> bool:
    """Does it lie in {train,val}/CLASS/, at any depth, and look like an image?"""
    path = PurePosixPath(name)
    hidden = any(part.startswith((".", "__MACOSX")) for part in path.parts)
    return not hidden and path.suffix.lower() in SUFFIXES and len(path.parts) >= 3 and path.parts[-3] in PARTS


def _entry(where: Path, name: str, size: int) -> Entry:
    if size > MOST_BYTES:
        raise UserError(
            f"{where}: {name} has {size:,} bytes, which no image here has: fetch it from its source"
        )
    *_, part, class_name, _ = PurePosixPath(name).parts
    return Entry(part, class_name, name, size)
