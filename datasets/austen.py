"""Austen: her six completed novels as characters, with the vocabulary of `shakespeare`.

They are the modern texts of Project Gutenberg as the R package `janeaustenr` 1.0.0 has them, 4.0 million
characters. They are read from the folder that was given; without one, from Debian's package
`r-cran-janeaustenr`. Sense and Sensibility, the last by name, is for testing. One character is not in the
vocabulary: a pound sign, which a question mark replaces.
"""

import hashlib
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import thinwire
from thinwire.data import text

_DEBIAN = Path("/usr/lib/R/site-library/janeaustenr/data")
_FILE = "Rdata.rdb"
# Of the novels with a form feed between two; the file itself also says which R has written it.
_SHA256 = "c4572e8622f440069b39e0c183cc43579a25689e3714bdfa23290716a8a2bc5f"
# Characters of those to train on.
_LENGTHS = (883_027, 883_278, 433_410, 466_853, 684_767)
_HOW_TO_GET = (
    "install Debian's package r-cran-janeaustenr, or put its Rdata.rdb into a folder and name it: `thinwire "
    "data austen --from PARENT/austen`, or in the pipeline `--config data=PARENT`"
)
# Of the vectors of strings and of the strings in them, in R's serialization.
_VECTOR, _STRING = 16, 9


class Dataset(text.Text):
    task = "next_character"
    clients = "novels"
    licence = "public domain; collection MIT, Julia Silge"
    source = "https://cran.r-project.org/package=janeaustenr, from Project Gutenberg"

    def lengths(self) -> list[int]:
        return [*_LENGTHS]

    def works(self, place: Path | None) -> dict[str, bytes]:
        path = (place or _DEBIAN) / _FILE
        if not path.is_file():
            raise thinwire.UserError(f"there is no {path}: {_HOW_TO_GET}")
        try:
            novels = ["\n".join(lines) for lines in _vectors(path.read_bytes())]
        except (ValueError, struct.error, zlib.error):
            novels = []
        if hashlib.sha256("\f".join(novels).encode()).hexdigest() != _SHA256:
            raise thinwire.UserError(
                f"{path} is damaged, or has not the novels of janeaustenr 1.0.0 (their SHA-256 differs): "
                f"{_HOW_TO_GET}"
            )
        return text.by_title(map(text.with_known_characters, novels))


def _vectors(database: bytes) -> Iterator[list[str]]:
    """The vectors of strings in one of R's databases for lazy loading.

    Each is compressed by zlib, after four bytes with its length before.
    """
    while database:
        stream = zlib.decompressobj()
        yield _strings(stream.decompress(database[4:]))
        database = stream.unused_data


def _strings(content: bytes) -> list[str]:
    """A vector of strings in R's serialization, version 3 of the binary format.

    Big-endian: `X`, a line feed, three numbers with versions, the name of an encoding after its length, then
    flags and the number of strings, and flags, length and bytes of each. The last byte of flags is the type.

    Raises:
        ValueError, struct.error: it is something else, or cut short.
    """
    if content[:6] != b"X\n\0\0\0\3":
        raise ValueError("it is not in version 3 of the binary format")
    place = 18 + struct.unpack_from(">I", content, 14)[0]
    flags, count = struct.unpack_from(">II", content, place)
    place += 8
    types, strings = {flags & 0xFF}, []
    for _ in range(count):
        flags, length = struct.unpack_from(">II", content, place)
        types.add(flags & 0xFF)
        strings.append(content[place + 8 : place + 8 + length].decode())
        place += 8 + length
    if types != {_VECTOR, _STRING} or place != len(content):
        raise ValueError("it is not a vector of strings")
    return strings
