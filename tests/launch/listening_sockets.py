"""The addresses at which a process listens, from the kernel."""

import re
import socket
import struct
from contextlib import suppress
from pathlib import Path

_LISTENS = "0A"  # the state in /proc/net/tcp


def of(process="self"):
    """Addresses and ports at which a process listens, in any network namespace."""
    folder, inodes = Path(f"/proc/{process}"), set()
    for entry in (folder / "fd").iterdir():
        with suppress(OSError):
            inodes.update(re.findall(r"socket:\[(\d+)\]", str(entry.readlink())))
    found = set()
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        with suppress(OSError):
            for line in (folder / "net" / table).read_text().splitlines()[1:]:
                _, local, _, state, *_, inode = line.split()[:10]
                if state == _LISTENS and inode in inodes:
                    address, port = local.split(":")
                    words = struct.unpack(f">{len(address) // 8}I", bytes.fromhex(address))
                    packed = struct.pack(f"={len(words)}I", *words)
                    found.add((socket.inet_ntop(family, packed), int(port, 16)))
    return found
