"""Cables that delay what nodes send: a process passes frames on, because many kernels have no netem.

    node 0: eth0 --- this process --- port0  bridge

Both ends of a cable are TAP devices, whose frames a process reads and writes. What limits the rate of a cable
is at its ends, as it is without a delay. So this process only waits: a frame that a node has sent goes on
after the delay, and one that a node receives goes on at once.
"""

import errno
import fcntl
import os
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from thinwire.emulation import namespaces

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
    with namespaces.entered(namespace):
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
    try:
        while len(frames) < _FRAMES_AT_ONCE:
            frames.append(os.read(descriptor, _FRAME))
    except BlockingIOError:
        pass
    return frames


def _write(descriptor: int, frame: bytes) -> None:
    """Write a frame; it is lost where the kernel has no memory or the device is not up, as on real cables."""
    try:
        os.write(descriptor, frame)
    except OSError as error:
        if error.errno not in (errno.EIO, errno.ENOMEM, errno.ENOBUFS, errno.EAGAIN):
            raise
