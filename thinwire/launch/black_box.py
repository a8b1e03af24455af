"""What a rank is doing, in a file that is there when the rank is not.

It is mapped into memory, so that noting costs a microsecond and the system keeps it however the process ends.
"""

import mmap
from pathlib import Path

_BYTES = 512


class BlackBox:
    """The file of one rank: the name of its node, and what it is doing."""

    def __init__(self, path: Path, node: str) -> None:
        self._before = f"{node}\n".encode()
        path.write_bytes(b" " * _BYTES)
        with path.open("r+b") as file:
            self._mapped = mmap.mmap(file.fileno(), _BYTES)

    def note(self, what: str) -> None:
        """Write what the rank is about to do."""
        self._mapped[:] = (self._before + what.encode()).ljust(_BYTES)[:_BYTES]


def read(path: Path) -> tuple[str, str]:
    """The node of a rank, and what it was doing last."""
    node, _, doing = path.read_text(errors="replace").partition("\n")
    return node.strip(), doing.strip()
