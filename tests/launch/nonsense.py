"""What a client of another protocol, or an attacker, may send to a port."""

import socket
import struct
from contextlib import suppress

import numpy as np

from thinwire.launch.heartbeat import ALARM
from thinwire.transport import framing

_RANDOM = np.random.default_rng(1)
NONSENSE = {
    "nothing": b"",
    "a byte": b"\0",
    "HTTP": b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
    "TLS": bytes.fromhex("160301020001000001fc0303") + b"\0" * 500,
    "torch's first words": struct.pack("<BIBI", 7, 0x3C85F7CE, 13, 1) + b"\0" * 64,
    "the largest lengths": b"\xff" * 4096,
    "zeros": bytes(4096),
    "random bytes": _RANDOM.bytes(100_000),
    "a request, without a proof": framing.pack([b"set", ALARM.encode(), b""]),
    "a request behind a guess": _RANDOM.bytes(64) + framing.pack([b"set", ALARM.encode(), b""]),
}


def send(host, port, content):
    """Send it over two connections: one is reset at once; the other stays open and is returned."""
    for stays in (False, True):
        connection = socket.create_connection((host, port), timeout=20)
        with suppress(ConnectionError):
            connection.sendall(content)
        if not stays:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
    return connection
