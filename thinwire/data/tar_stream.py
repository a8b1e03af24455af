"""The members of a tar that nobody vouches for, one after the other and without unpacking anything."""

import gzip
import tarfile
from collections.abc import Generator
from pathlib import Path
from typing import IO

MOST_HEADER_BYTES = 64 * 2**10  # of one long name
MOST_MEMBERS = 5_000_000  # all are listed in memory; ImageNet-1K has 1.3 million
_BLOCK_BYTES = 2**20


class _Member(tarfile.TarInfo):
    """Refuses names of absurd length and files with holes: tarfile reads both descriptions into memory."""

    def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        long_name = not (self.isreg() or self.isdir() or self.issym() or self.islnk() or self.isdev())
        if long_name and self.size > MOST_HEADER_BYTES:
            raise tarfile.ReadError(f"a name in it has {self.size:,} bytes")
        return super()._proc_member(tar)  # type: ignore[misc]

    def _proc_sparse(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        raise tarfile.ReadError(f"{self.name} is a file with holes")

    def _proc_gnusparse_10(self, *_: object) -> None:
        raise tarfile.ReadError(f"{self.name} is a file with holes")


def members_of(path: Path) -> Generator[tuple[tarfile.TarInfo, tarfile.TarFile], None, None]:
    """The members of a tar, compressed or not, read from front to back and to the very end.

    The end is where a gzip has its checksum, and a tar whose headers are damaged has more than zeros there.
    """
    with _stream(path) as stream:
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Member) as tar:
            for number, member in enumerate(tar):
                if number == MOST_MEMBERS:
                    raise tarfile.ReadError(f"it has more than {MOST_MEMBERS:,} members")
                yield member, tar
                tar.members.clear()  # type: ignore[attr-defined]  # it would keep all of them
            rest = tar.fileobj
            assert rest is not None, "it is open"
            while block := rest.read(_BLOCK_BYTES):
                if any(block):
                    raise tarfile.ReadError("it is damaged in the middle")
        while stream.read(_BLOCK_BYTES):
            pass


def _stream(path: Path) -> IO[bytes]:
    return path.open("rb") if path.suffix == ".tar" else gzip.open(path)  # type: ignore[return-value]
