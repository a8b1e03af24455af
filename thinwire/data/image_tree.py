"""Trees of images, {train,val}/CLASS/*.JPEG, in a folder, a zip or a tar.

An archive is read member by member, and nothing of it is unpacked onto the disk. If it does not keep to
`archive_limits`, it is refused as a whole, before any image is read.
Damage is found where the form has checksums. A zip has one for each member, and a gzip one for the whole. A
plain tar has them for its headers only.
"""

import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from thinwire.data.archive_limits import read_whole, require_harmless, require_printable, require_size
from thinwire.data.tar_stream import members_of
from thinwire.errors import UserError

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
            UserError: there is none, or the archive is damaged or not to be trusted.
        """
        self.path = _the_archive(path) if path.is_dir() and not _roots(path) else path
        with _readable(self.path), closing(self._list()) as entries:
            self.entries = list(entries)
        for name, count in Counter(entry.name for entry in self.entries).items():
            if count > 1:
                raise UserError(f"{self.path} has {name} more than once: fetch it from its source")
        roots = sorted({str(PurePosixPath(entry.name).parents[2]) for entry in self.entries})
        if len(roots) > 1:
            raise UserError(
                f"{self.path} has several trees, {roots[0]} and {roots[1]}: leave one of them there"
            )
        for part in PARTS:
            if not any(entry.part == part for entry in self.entries):
                raise UserError(f"{self.path} has no images in {part}/CLASS/*.JPEG")

    def classes(self) -> list[str]:
        """The names of the classes, sorted: those of the training images.

        Raises:
            UserError: a validation image is of another class.
        """
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
                    with (self.path / entry.name).open("rb") as plain:
                        yield read_whole(plain, entry.bytes, f"{self.path}: {entry.name}")
            elif self.path.suffix == ".zip":
                with zipfile.ZipFile(self.path) as archive:
                    for entry in entries:
                        with archive.open(entry.name) as packed:
                            yield read_whole(packed, entry.bytes, f"{self.path}: {entry.name}")
            else:
                wanted = {entry.name: entry for entry in entries}
                with closing(members_of(self.path)) as members:
                    for member, tar in members:
                        if found := wanted.get(member.name):
                            content = tar.extractfile(member)
                            assert content is not None, "entries are plain files"
                            yield read_whole(content, found.bytes, f"{self.path}: {found.name}")

    def _list(self) -> Generator[Entry, None, None]:
        if self.path.is_dir():
            return _in_folder(self.path)
        return _in_zip(self.path) if self.path.suffix == ".zip" else _in_tar(self.path)


# What reading an archive or a file may raise; encrypted members and unknown compressions are among them.
_DAMAGE = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    EOFError,
    OSError,
    LookupError,
    NotImplementedError,
    RuntimeError,
)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
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


def _in_folder(folder: Path) -> Generator[Entry, None, None]:
    root = _roots(folder)[0]
    for part in PARTS:
        for path in sorted((root / part).glob("*/*")):
            name = str(path.relative_to(folder))
            if _is_image(name) and path.is_file():
                about = path.stat()
                yield _entry(folder, name, about.st_size, about.st_mtime_ns)


def _in_zip(path: Path) -> Generator[Entry, None, None]:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            link = (info.external_attr >> 16) & 0o170000 == 0o120000
            require_harmless(path, info.filename, link)
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                # The others unpack a block at a time, however large it becomes.
                raise UserError(f"{path}: {info.filename} is packed in an unusual way: pack it with deflate")
            if not info.is_dir() and _is_image(info.filename):
                yield _entry(path, info.filename, info.file_size, info.CRC)


def _in_tar(path: Path) -> Generator[Entry, None, None]:
    stamp = path.stat().st_mtime_ns
    with closing(members_of(path)) as members:
        for member, _ in members:
            require_harmless(path, member.name, not (member.isfile() or member.isdir()))
            if member.isfile() and _is_image(member.name):
                yield _entry(path, member.name, member.size, stamp)


def _is_image(name: str) -> bool:
    """Does it lie in {train,val}/CLASS/, at any depth, and look like an image?"""
    path = PurePosixPath(name)
    hidden = any(part.startswith((".", "__MACOSX")) for part in path.parts)
    return not hidden and path.suffix.lower() in SUFFIXES and len(path.parts) >= 3 and path.parts[-3] in PARTS


def _entry(where: Path, name: str, size: int, stamp: int) -> Entry:
    require_size(where, name, size)
    require_printable(where, name)
    part, class_name = PurePosixPath(name).parts[-3:-1]
    return Entry(part, class_name, name, size, stamp)
