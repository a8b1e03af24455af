"""What emulation needs of Linux: network namespaces, and cables that delay what nodes send.

Only file descriptors hold the namespaces: they vanish with the last of these. A process without root first
needs a user namespace, in which it may make others.

A process delays what goes over a cable, because many kernels have no netem.

    node 0: eth0 --- this process --- port0  bridge

Both ends of a cable are TAP devices, whose frames the process reads and writes. What limits the rate of a
cable is at its ends, as it is without a delay. So the process only waits: a frame that a node has sent goes
on after the delay, and one that a node receives goes on at once.
"""

import ctypes
import errno
import fcntl
import os
import select
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

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


DEVICE = "/dev/net/tun"
# From <linux/if_tun.h>.
_TUNSETIFF, _TUNSETOFFLOAD = 0x400454CA, 0x400454D0
_IFF_TAP, _IFF_NO_PI, _IFF_VNET_HDR = 0x2, 0x1000, 0x4000
_OFFLOADS = 0x1 | 0x2 | 0x4  # checksums, and frames of TCP over IPv4 and IPv6 that are passed on as one
# The longest frame that is passed on as one, and its headers.
_FRAME = 65_536 + 128
# Of one cable, before the others have their turn.
_FRAMES_AT_ONCE = 32


class Cable(NamedTuple):
    """The descriptors of the two ends of a cable."""

    node: int
    port: int


def tap(name: str, namespace: int) -> int:
    """Make a TAP device in a network namespace; returns the descriptor with which it vanishes.

    Raises:
        OSError: the kernel has none, or this process may not open them.
    """
    with entered(namespace):
        made = os.open(DEVICE, os.O_RDWR | os.O_NONBLOCK)
        flags = _IFF_TAP | _IFF_NO_PI | _IFF_VNET_HDR
        try:
            fcntl.ioctl(made, _TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
            # Frames that the kernel would cut for a real cable cost a reading and a writing each.
            fcntl.ioctl(made, _TUNSETOFFLOAD, _OFFLOADS)
        except OSError:
            os.close(made)
            raise
    return made


def pass_on(cables: Sequence[Cable], delay_seconds: float, until: socket.socket) -> None:
    """Pass frames on between the ends of cables, until the other end of a socket is closed.

    Args:
        cables: of all nodes.
        delay_seconds: of what the nodes send.
        until: the other end sends nothing.
    """
    ready = select.epoll()
    other_end = {end: other for cable in cables for end, other in (cable, cable[::-1])}
    delay = {cable.node: delay_seconds for cable in cables} | {cable.port: 0.0 for cable in cables}
    for descriptor in (*other_end, until.fileno()):
        ready.register(descriptor, select.EPOLLIN)
    under_way: deque[tuple[float, int, bytes]] = deque()  # when a frame goes on, where, and the frame
    now = time.monotonic
    while True:
        wait = max(0.0, under_way[0][0] - now()) if under_way else None
        # The timeout of `select` is exact to microseconds, that of epoll to milliseconds.
        select.select([ready], [], [], wait)
        for descriptor, _ in ready.poll(0):
            if descriptor == until.fileno():
                return
            for frame in _frames(descriptor):
                if delay[descriptor]:
                    under_way.append((now() + delay_seconds, other_end[descriptor], frame))
                else:
                    _write(other_end[descriptor], frame)
        while under_way and under_way[0][0] <= now():
            _, descriptor, frame = under_way.popleft()
            _write(descriptor, frame)


def _frames(descriptor: int) -> list[bytes]:
    """The next frames that wait at one end."""
    frames: list[bytes] = []
    with suppress(BlockingIOError):
        while len(frames) < _FRAMES_AT_ONCE:
            frames.append(os.read(descriptor, _FRAME))
    return frames


def _write(descriptor: int, frame: bytes) -> None:
    """Write a frame; it is lost where the kernel has no memory or the device is not up, as on real cables."""
    try:
        os.write(descriptor, frame)
    except OSError as error:
        if error.errno not in (errno.EIO, errno.ENOMEM, errno.ENOBUFS, errno.EAGAIN):
            raise
