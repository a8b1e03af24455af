"""Network namespaces of Linux that only file descriptors hold: they vanish with the last of these.

A process without root first needs a user namespace, in which it may make others.
"""

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# From <sched.h>; Python has them from 3.12 on.
NET, USER = 0x40000000, 0x10000000
_FILES = {NET: "net", USER: "user"}
_LIBC = ctypes.CDLL(None, use_errno=True)


def new_network() -> int:
    """Make a network namespace; returns the descriptor that holds it.

    Raises:
        OSError: this process may not, or there are too many.
    """
    with _returning():
        _require(_LIBC.unshare(NET))
        return current(NET)


def begin_user() -> int:
    """Move this process, which has one thread, to a new user namespace, in which it is root.

    It also moves to a new network namespace, because it could never return to one of the system. Gives the
    descriptor that holds the user namespace.

    Raises:
        OSError: this system does not allow it.
    """
    user, group = os.geteuid(), os.getegid()
    _require(_LIBC.unshare(USER | NET))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    return current(USER)


def current(kind: int) -> int:
    """A descriptor that holds the namespace of this thread, of this kind: `NET` or `USER`."""
    return os.open(f"/proc/thread-self/ns/{_FILES[kind]}", os.O_RDONLY)


def enter(namespace: int, kind: int = NET) -> None:
    """Move this thread to a namespace. Sockets that it has open stay where they are.

    Raises:
        OSError: this process may not; or it has several threads, and the namespace is of users.
    """
    if os.path.samestat(os.fstat(namespace), os.stat(f"/proc/thread-self/ns/{_FILES[kind]}")):
        return
    _require(_LIBC.setns(namespace, kind))


@contextmanager
def entered(namespace: int) -> Iterator[int]:
    """Move this thread to a network namespace, and back at the end of the block.

    Gives a number by which other programs find this thread, and so the namespace.
    """
    with _returning():
        enter(namespace)
        yield threading.get_native_id()


@contextmanager
def _returning() -> Iterator[None]:
    """Return this thread to its network namespace at the end of the block."""
    before = current(NET)
    try:
        yield
    finally:
        enter(before)
        os.close(before)


def _require(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
