"""Ports of this process at which nobody is expected any more.

gloo listens as long as a group lives, also when all its members have come. It keeps whoever connects later,
and ends the process when there are too many. So from then on the kernel asks everybody who connects there for
a signature (RFC 2385), with a key that nobody knows; other packets it drops. No privilege is needed for that.
"""

import os
import secrets
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress

# From <linux/tcp.h>: struct tcp_md5sig has an address, flags, the length of the address's prefix that counts,
# and a key. Of the address none counts, but its family.
_TCP_MD5SIG_EXT, _FLAG_PREFIX = 32, 1
_SIGNATURE, _KEY_BYTES = struct.Struct("H126xBBHi80s"), 32


def listening() -> set[int]:
    """The file descriptors of this process that listen."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        # Most are no sockets, and one is that of the folder, which is closed by now.
        with suppress(OSError), _borrowed(int(name)) as one:
            if one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                found.add(int(name))
    return found


def shut(listeners: set[int]) -> None:
    """Let nobody in any more; who is in stays. Where the system does not know how, nothing changes."""
    for listener in listeners:
        with suppress(OSError), _borrowed(listener) as one:
            key = secrets.token_bytes(_KEY_BYTES)
            rule = _SIGNATURE.pack(one.family, _FLAG_PREFIX, 0, len(key), 0, key)
            one.setsockopt(socket.IPPROTO_TCP, _TCP_MD5SIG_EXT, rule)


@contextmanager
def _borrowed(descriptor: int) -> Iterator[socket.socket]:
    """A socket that somebody else has opened, and closes."""
    one = socket.socket(fileno=descriptor)
    try:
        yield one
    finally:
        one.detach()
