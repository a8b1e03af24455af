"""What a case may break without harm to others: its own mounts, and limits that can be undone.

Mounts need root, or a system that lets everybody make namespaces; `why_not` says what is missing.
"""

import ctypes
import errno
import fcntl
import os
import signal
import socket
import struct
from contextlib import suppress
from functools import cache
from pathlib import Path

from thinwire.base.files import try_lock

SHM = Path("/dev/shm")
BALLAST = "ballast"
_NEWNS, _PRIVATE, _BIND, _READ_ONLY, _REMOUNT = 0x20000, 0x44000, 0x1000, 0x1, 0x20
_SUBREAPER, _PARENT_DEATH_SIGNAL = 36, 1
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1
_LIBC = ctypes.CDLL(None, use_errno=True)


@cache
def why_not() -> str | None:
    """Why this process cannot have mounts of its own, or None."""
    child = os.fork()
    if child == 0:
        try:
            own_mounts()
        except OSError as error:
            os._exit(error.errno or 1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return f"mounts of its own need root ({os.strerror(code)})" if code else None


def own_mounts() -> None:
    """Give this process its own mounts: only it and its children see them, and they vanish with them."""
    _require(_LIBC.unshare(_NEWNS))
    _mount(b"none", Path("/"), None, _PRIVATE)


def tmpfs(path: Path, megabytes: int) -> None:
    """An empty file system in memory, of this size, mounted at `path`."""
    _mount(b"tmpfs", path, b"tmpfs", 0, f"size={megabytes}m".encode())


def read_only(path: Path) -> None:
    """Make the file system that is mounted at `path` read-only."""
    _mount(b"none", path, None, _REMOUNT | _BIND | _READ_ONLY)


def writable(path: Path) -> None:
    """Make the file system that is mounted at `path` writable again."""
    _mount(b"none", path, None, _REMOUNT | _BIND)


def fill(folder: Path) -> None:
    """Fill the file system of `folder`."""
    with (folder / BALLAST).open("ab", buffering=0) as file:
        for size in (2**20, 2**12):
            with suppress(OSError):
                while True:
                    file.write(bytes(size))


def clear(folder: Path) -> None:
    """Remove what `fill` has written."""
    (folder / BALLAST).unlink(missing_ok=True)


def cut_trees(results: Path) -> None:
    """Cut the newest `tree.json` of every rank in half, and keep the whole beside it."""
    for folder in {tree.parents[1] for tree in results.rglob("tree.json")}:
        tree = max(folder.glob("[0-9]*/tree.json"))
        text = tree.read_text()
        (tree.parent / "tree.json.sound").write_text(text)
        tree.write_text(text[: len(text) // 2])


def adopt_orphans() -> None:
    """Make this process the parent of orphaned descendants, so that none of them is lost."""
    _require(_LIBC.prctl(_SUBREAPER, 1))


def die_with_parent() -> None:
    _require(_LIBC.prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL))


def children(of: int | None = None) -> list[int]:
    """All living descendants of a process; None: of this one."""
    found, open_ = [], [of or os.getpid()]
    while open_:
        parent = open_.pop()
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            with suppress(OSError):
                new = [int(pid) for pid in task.read_text().split()]
                open_ += new
                found += [pid for pid in new if not _is_zombie(pid)]
    return found


def doing(pid: int) -> str:
    """A description of a process."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return f"process {pid} ({command}) in state {state}"
    except OSError:
        return f"process {pid}"


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def set_link(interface: str, up: bool) -> None:
    """Set a network interface of this process's namespace up or down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        request = struct.pack("16sH14x", interface.encode(), 0)
        (flags,) = struct.unpack_from("H", fcntl.ioctl(line, _GET_FLAGS, request), 16)
        flags = flags | _UP if up else flags & ~_UP
        fcntl.ioctl(line, _SET_FLAGS, struct.pack("16sH14x", interface.encode(), flags))


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock of this file."""
    with path.open() as file:
        return not try_lock(file, "use another folder")


def _mount(source: bytes, target: Path, kind: bytes | None, flags: int, options: bytes | None = None) -> None:
    _require(_LIBC.mount(source, os.fsencode(target), kind, flags, options))


def _require(result: int) -> None:
    if result:
        number = ctypes.get_errno() or errno.EPERM
        raise OSError(number, os.strerror(number))
