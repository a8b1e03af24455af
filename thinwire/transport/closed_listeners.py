"""Listening ports of this process that are to accept no new connections.

gloo listens as long as a group exists, even after all members have connected. It keeps every later
connection, and too many of them end the process. So after a group has opened, this module sets a TCP
signature (RFC 2385) on the listeners, with a key that nobody knows. The kernel then drops all packets of new
connections. Existing connections continue. This needs no privileges.
"""

import os
import secrets
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress

# From <linux/tcp.h>: struct tcp_md5sig has an address, flags, the length of a prefix of the address, and a
# key. Only this prefix must match. With a length of 0 only the family of the address must match.
_TCP_MD5SIG_EXT, _FLAG_PREFIX = 32, 1
_SIGNATURE, _KEY_BYTES = struct.Struct("H126xBBHi80s"), 32


def listening() -> set[int]:
    """Return the file descriptors of this process that are listening sockets."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        # Most are not sockets. One is that of /proc/self/fd itself, which is already closed.
        with suppress(OSError), _borrowed(int(name)) as listener:
            if listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                found.add(int(name))
    return found


def shut(listeners: set[int]) -> None:
    """Refuse new connections and keep the existing ones; do nothing if the system cannot do that."""
    for descriptor in listeners:
        with suppress(OSError), _borrowed(descriptor) as listener:
            key = secrets.token_bytes(_KEY_BYTES)
            rule = _SIGNATURE.pack(listener.family, _FLAG_PREFIX, 0, len(key), 0, key)
            listener.setsockopt(socket.IPPROTO_TCP, _TCP_MD5SIG_EXT, rule)


@contextmanager
def _borrowed(descriptor: int) -> Iterator[socket.socket]:
    """Use a socket that other code has opened and will close."""
    borrowed = socket.socket(fileno=descriptor)
    try:
        yield borrowed
    finally:
        borrowed.detach()
