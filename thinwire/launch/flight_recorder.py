"""A recorder for each rank, which can still be read when the rank is gone.

It holds what the rank is doing, its last calls and its exit report, in mapped memory. Forks share this memory
with their parent; ranks on several hosts have a file each. So an entry costs a microsecond and no further
disk space, and the operating system keeps it however the process ends.
"""

import mmap
import shutil
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from thinwire.files import writing

_ABOUT_BYTES, _REPORT_BYTES = 512, 16384
# The last calls are kept in a ring of slots.
_SLOTS, _SLOT_BYTES = 128, 256
_SLOTS_START = _ABOUT_BYTES + _REPORT_BYTES
_BYTES = _SLOTS_START + _SLOTS * _SLOT_BYTES


class Recording(NamedTuple):
    """What a recorder holds."""

    node: str
    phase: str  # of the run; empty: the rank has not begun
    doing: str
    calls: dict[str, dict[str, str]]  # descriptions of the last ones, by channel and number
    report: str  # the exit report as JSON; empty: the rank has left none


class FlightRecorder:
    """The recorder of one rank."""

    def __init__(self, mapped: mmap.mmap) -> None:
        self._mapped = mapped
        self._node = self._phase = ""
        self._calls = 0

    def phase(self, node: str, name: str) -> None:
        """Record that a phase of the run begins, and on which node the rank is."""
        self._node, self._phase = node, name
        self.doing("begins")

    def doing(self, what: str) -> None:
        """Record what the rank is about to do."""
        text = f"{self._node}\n{self._phase}\n{what}".encode()
        self._mapped[:_ABOUT_BYTES] = text.ljust(_ABOUT_BYTES)[:_ABOUT_BYTES]

    def called(self, channel: str, number: int, description: str) -> None:
        """Record a call: its number on its channel, from 1, and its description."""
        start = _SLOTS_START + self._calls % _SLOTS * _SLOT_BYTES
        self._write(f"{channel}\t{number}\t{description}", start, _SLOT_BYTES)
        self._calls += 1

    def leave(self, report: str) -> None:
        """Record the exit report of the rank."""
        self._write(report, _ABOUT_BYTES, _REPORT_BYTES)

    def read(self) -> Recording:
        """What has been recorded."""
        about = self._mapped[:_ABOUT_BYTES].decode(errors="replace").strip("\0 ")
        node, phase, doing = [*about.split("\n", 2), "", ""][:3]
        calls: dict[str, dict[str, str]] = {}
        for start in range(_SLOTS_START, _BYTES, _SLOT_BYTES):
            if text := self._read(start, _SLOT_BYTES):
                channel, number, description = text.split("\t", 2)
                calls.setdefault(channel, {})[number] = description
        return Recording(node, phase, doing, calls, self._read(_ABOUT_BYTES, _REPORT_BYTES))

    def _write(self, text: str, start: int, size: int) -> None:
        """Write an entry, its checksum first, because a process may be killed while it writes."""
        entry = text.encode()[: size - 9]
        self._mapped[start : start + size] = (f"{crc32(entry):08x} ".encode() + entry).ljust(size)

    def _read(self, start: int, size: int) -> str:
        """Read an entry; empty if there is none, or only a part of one."""
        checksum, _, entry = self._mapped[start : start + size].strip(b"\0 ").partition(b" ")
        return entry.decode(errors="replace") if checksum == f"{crc32(entry):08x}".encode() else ""


def in_memory(ranks: int) -> list[FlightRecorder]:
    """Recorders that this process shares with its forks."""
    return [FlightRecorder(mmap.mmap(-1, _BYTES)) for _ in range(ranks)]


def make_files(folder: Path, ranks: int) -> None:
    """Make the files of new recorders, and remove those of an earlier attempt.

    Raises:
        CannotWrite: there is no room for them.
    """
    with writing(folder):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for rank in range(ranks):
            # Written in full, so that a full disk raises an error here. Later it would kill a rank.
            _file(folder, rank).write_bytes(b" " * _BYTES)


def in_files(folder: Path, ranks: int) -> list[FlightRecorder]:
    """Recorders in files that all ranks see.

    Raises:
        CannotWrite: the files are missing.
    """
    recorders = []
    with writing(folder):
        for rank in range(ranks):
            with _file(folder, rank).open("r+b") as file:
                recorders.append(FlightRecorder(mmap.mmap(file.fileno(), _BYTES)))
    return recorders


def _file(folder: Path, rank: int) -> Path:
    return folder / f"rank{rank}"
